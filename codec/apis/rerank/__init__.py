"""Ranking documents by how well they answer a query (``apis.md`` section 6)."""
