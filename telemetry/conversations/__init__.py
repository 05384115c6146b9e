"""Conversations: which call continues which, found from the traffic alone.

``conversations`` finds the position of each call that has ended, and remembers the call for later
ones; ``positions`` puts the position on the call. ``runs`` has the open runs, and ``run`` says what
one is. ``continuation`` names the rules by which a call is found;
``matcher``, inside, follows them.

Doors: ``continuation``, ``conversations``, ``keys``, ``memory``, ``positions``, ``prompt``,
``run``, ``runs``.
"""
