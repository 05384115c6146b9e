"""The engine of the store that one proxy writes: an SQLite file, read while its owner writes it.

Doors: ``agent_runs``, ``conversation_rows``, ``paged_reader``, ``ranking``, ``reader``,
``statistics``, ``summing``.
"""
