"""APIs: each that is observed is one folder or module here and one line in the table.

Nothing outside imports an API, and the APIs know nothing of each other. Chats are folded in a
separate room, :mod:`codec.chat`, because legacy completions, embeddings and the library rooms use
it, too.

:func:`codec.apis.table.find_api` finds the :class:`~codec.apis.api.Api` of a request, which is all
that the rest of the product asks of an API. :mod:`codec.apis.player` says how the demo upstream has
an API play answers, and :mod:`codec.apis.faults` how OpenAI writes errors.

Doors: ``api``, ``faults``, ``player``, ``session``, ``table``.

:mod:`codec.apis.session` says how the calls of a WebSocket are read.

APIs share these modules
    :class:`~codec.apis.api.NoStream` is the stream of an API that has none,
    :mod:`~codec.apis.claude_code` reads what Claude Code says of its session. Of the players,
    :mod:`~codec.apis.chunk_player` writes chats and legacy completions,
    :mod:`~codec.apis.event_player` events, and :mod:`~codec.apis.vector_player` embeddings.
"""
