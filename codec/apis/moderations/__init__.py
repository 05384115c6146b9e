"""Moderations: whether content is of a kind that nobody wants.

See ``docs/contract/apis.md#moderations``. A verdict is not an answer of a model: its span has no
messages and no counts, and ``metadata`` names what was flagged.

Doors: ``route``.
"""
