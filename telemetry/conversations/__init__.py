"""Conversations: which call goes on from which, from the traffic alone.

:class:`telemetry.conversations.conversations.Conversations` is the door: it is asked for the place
of each call that has ended, and remembers the call for those that come.
:class:`~telemetry.conversations.matcher.Matcher` knows the rules of which call is meant.
"""
