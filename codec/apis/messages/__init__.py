"""Messages: the API of Anthropic, which Bedrock, Vertex AI and gateways serve, too.

A request is a :class:`~codec.apis.messages.asked.MessageRequest`, an answer a
:class:`~codec.apis.messages.said.MessageAnswer`; :mod:`~codec.apis.messages.blocks` makes messages
of both. :mod:`~codec.apis.messages.stream` joins events by :mod:`~codec.apis.messages.fold`, and
takes the quick way where an event is one more word.

Doors: ``route``.
"""
