"""Conversations: which call continues which, found from the traffic alone.

:class:`telemetry.conversations.conversations.Conversations` finds the position of each call that
has ended, and remembers the call for later ones.
:class:`~telemetry.conversations.matcher.Matcher` has the rules by which a call is found.

Doors: ``conversations``, ``keys``, ``memory``, ``positions``, ``prompt``, ``run``, ``runs``.
"""
