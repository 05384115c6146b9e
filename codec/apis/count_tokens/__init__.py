"""Token counts: Anthropic says how long a request is, without asking the model.

Doors: ``route``.
"""
