"""``spantap store``: describes a store, exports, sends and deletes its calls.

Doors: ``arguments``.
"""
