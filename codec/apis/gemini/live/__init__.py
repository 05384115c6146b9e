"""Gemini Live: a conversation over a WebSocket, in Google's own API and in Vertex AI.

A :class:`~codec.apis.gemini.live.session.LiveSession` finds the turns in the messages of both
sides; :mod:`~codec.apis.gemini.live.history` keeps the conversation. Each message of a turn says
what a chunk of streamed content says, so that :mod:`~codec.apis.gemini.live.stream` reads it by the
fold of these. Sound is counted (:mod:`~codec.apis.gemini.live.sound`), and not kept.

Doors: ``route``, ``session``.
"""
