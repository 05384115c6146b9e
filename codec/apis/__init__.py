"""APIs: each that is observed is one folder here and one line in the table.

:func:`codec.apis.table.find_api` is the door: it tells the :class:`~codec.apis.api.Api` of a
request. Nothing outside imports a folder, and the folders know nothing of each other. So the fold
of chats has a room of its own, :mod:`codec.chat`: legacy completions, embeddings and the library
rooms use it.
"""
