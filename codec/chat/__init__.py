"""Chats: what their requests and answers hold, and the fold that joins a stream's chunks.

It is used by chat completions, legacy completions and embeddings (:mod:`codec.apis`), and by the
rooms for library users: :mod:`codec.events`, :mod:`codec.values`, :mod:`codec.compat`.

:func:`codec.chat.request.decode_request` reads a request,
:func:`codec.chat.response.decode_response` a whole answer, :class:`codec.chat.stream.ChatStream` a
streamed one. Below it :class:`codec.chat.accumulator.Accumulator` joins decoded chunks, choice by
choice (:mod:`codec.chat.choice`). :func:`codec.chat.completion.build_completion` writes the joined
answer as a provider would. :data:`codec.chat.usage_option.STREAM_OPTIONS` is how a chat asks for
its usage.

Doors: ``accumulator``, ``answer``, ``choice``, ``chunk``, ``completion``, ``finish``,
``reasoning``, ``request``, ``response``, ``rewrite``, ``stream``, ``tool_calls``, ``usage_filter``,
``usage_option``.
"""
