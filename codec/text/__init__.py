"""Text as it comes over the wire: JSON and server-sent events, by their own rules alone.

Nothing here knows an API, and nothing keeps more than it is given.

Doors
    :mod:`codec.text.jsontext` decodes and encodes JSON, :mod:`~codec.text.json_size` says
    beforehand what that takes, :mod:`~codec.text.nesting` how deep it goes.
    :class:`codec.text.sse.SseDecoder` makes events of bytes that are cut anywhere.
    :func:`codec.text.scan.scan_request` finds members in a body without decoding it, also where
    the body lies in :class:`~codec.text.blocks.Blocks`; :mod:`~codec.text.multipart` finds the
    fields of a form while it passes.
    :mod:`codec.text.base64_text` shortens inline media, :mod:`~codec.text.integers` reads counts.
"""
