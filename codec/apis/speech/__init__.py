"""Speech: a text, spoken (``docs/contract/apis.md#sound``).

The answer is sound as bytes, events with pieces of sound, or Mistral's JSON. Sound is counted, and
never kept.

Doors: ``route``.
"""
