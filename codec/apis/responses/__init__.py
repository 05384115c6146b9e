"""OpenAI's Responses API, and the servers that have copied it: items in, items out.

A request is a :class:`~codec.apis.responses.asked.ResponseRequest`, an answer a
:class:`~codec.apis.responses.said.ResponseAnswer`; :mod:`~codec.apis.responses.items` makes
messages of both. :mod:`~codec.apis.responses.stream` joins events by
:mod:`~codec.apis.responses.fold`, and takes the quick way where an event is one more word.

A WebSocket carries many calls: a :class:`~codec.apis.responses.session.ResponseSession` finds them
in its messages, and each is read by the same fold.

Realtime has the same items and events, and reads them by ``asked``, ``said``, ``stream`` and
``messages``.

Doors: ``route``, ``session``, ``asked``, ``said``, ``stream``, ``messages``.
"""
