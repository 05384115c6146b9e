"""Moderations: whether content is of a kind that nobody wants.

See ``docs/contract/apis.md#moderations``.

:data:`codec.apis.moderations.route.MODERATIONS` is the door. A verdict is not an answer of a model:
its span has no messages and no counts, and what was flagged stands in ``metadata``.
"""
