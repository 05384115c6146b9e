"""OpenAI's Responses API, and all who speak its language: items in, items out.

:data:`codec.apis.responses.route.RESPONSES` is the door. A request is a
:class:`~codec.apis.responses.asked.ResponseRequest`, an answer a
:class:`~codec.apis.responses.said.ResponseAnswer`; :mod:`~codec.apis.responses.items` makes
messages of both. :mod:`~codec.apis.responses.stream` joins events by
:mod:`~codec.apis.responses.fold`, and takes the quick way where an event is one more word.
"""
