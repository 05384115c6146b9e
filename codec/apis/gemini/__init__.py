"""Gemini: Google's API, on its own host, on Vertex AI and behind gateways.

A request is a :class:`~codec.apis.gemini.asked.ContentRequest`, an answer a
:class:`~codec.apis.gemini.said.ContentAnswer`; :mod:`~codec.apis.gemini.content` makes messages of
both. A stream goes through :mod:`~codec.apis.google_framing`, which finds the chunks in events, an
array or plain JSON, to :mod:`~codec.apis.gemini.fold`, which joins them. Sessions of Live are read
in :mod:`~codec.apis.gemini.live`.

Doors: ``live``, ``route``.
"""
