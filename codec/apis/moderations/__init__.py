"""Judging content: whether it is of a kind that nobody wants (``apis.md`` section 9)."""
