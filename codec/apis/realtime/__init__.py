"""OpenAI's Realtime API, and the servers that have copied it: a conversation over a WebSocket.

A :class:`~codec.apis.realtime.session.RealtimeSession` finds the responses in the messages of both
sides; :mod:`~codec.apis.realtime.conversation` keeps the conversation that they are about. A
response has the items of the Responses API, and mostly the same events under other names, so that
:mod:`~codec.apis.realtime.stream` reads it by the fold of that API. Sound is counted
(:mod:`~codec.apis.realtime.sound`), and kept only if that is asked for
(:mod:`~codec.apis.realtime.heard`).

Doors: ``route``, ``session``.
"""
