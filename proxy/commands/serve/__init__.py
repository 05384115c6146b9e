"""``spantap serve``: becomes the supervisor, and writes a line for each call to a terminal.

Doors: `command`.
"""
