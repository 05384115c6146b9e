"""The engine of the store that one proxy writes: an SQLite file, read while its owner writes it.

Doors: ``engine``.
"""
