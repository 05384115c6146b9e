"""Text as it comes over the wire: JSON, server-sent events and forms, whichever API sends them.

Nothing here knows an API, and every reader has a limit for what it keeps.

:mod:`codec.text.jsontext` decodes and encodes JSON; before that, :mod:`~codec.text.json_size`
estimates the memory that it takes, and :mod:`~codec.text.nesting` follows its brackets.
:mod:`codec.text.sse`, :mod:`~codec.text.lines` and :mod:`~codec.text.json_stream` cut a stream into
events, lines and values, wherever the network cut its bytes; :mod:`~codec.text.event_frame`
recognises events that are alike. :mod:`codec.text.scan` finds members of a body without decoding
it, also where the body lies in :mod:`~codec.text.blocks`; :mod:`~codec.text.multipart` reads the
fields of a form while it passes. :mod:`codec.text.base64_text` shortens inline media,
:mod:`~codec.text.pictures` decodes pictures, :mod:`~codec.text.integers` reads counts,
:mod:`~codec.text.python_notation` what Python's ``repr`` wrote.

Doors: ``base64_text``, ``blocks``, ``event_frame``, ``integers``, ``json_size``, ``json_stream``,
``jsontext``, ``lines``, ``multipart``, ``nesting``, ``pictures``, ``python_notation``, ``scan``,
``sse``.
"""
