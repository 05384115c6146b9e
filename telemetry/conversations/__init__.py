"""Conversations: which call goes on from which, from the traffic alone.

:class:`telemetry.conversations.linker.Linker` is the door: it is asked of each call that has ended,
in the order in which the calls began, and remembers it for those that come.
"""
