"""Wire: chunks and usage as typed views over their decoded JSON, for library users.

A view reads a member when it is asked for it, and copies nothing. What has the wrong type reads as
``None``, what has no name here is in ``extra``, and ``raw`` is the object as it came.

:func:`decode_chunk` reads the data of one event. :class:`Chunk`, :class:`UsageCounts` and the other
views take an object that is decoded already.

Doors: ``decode_chunk``, ``Chunk``, ``UsageCounts``, and the other views.

>>> chunk = decode_chunk(b'{"choices":[{"index":0,"delta":{"content":"Hi"}}],"x_vendor":1}')
>>> chunk.choices[0].delta.content
'Hi'
>>> chunk.extra
{'x_vendor': 1}
"""

from __future__ import annotations

from codec.wire.chunks import (
    Chunk,
    ChunkChoice,
    CompletionDetails,
    Delta,
    FunctionDelta,
    Logprobs,
    PromptDetails,
    TokenLogprob,
    ToolCallDelta,
    UsageCounts,
    decode_chunk,
)

__all__ = (
    "Chunk",
    "ChunkChoice",
    "CompletionDetails",
    "Delta",
    "FunctionDelta",
    "Logprobs",
    "PromptDetails",
    "TokenLogprob",
    "ToolCallDelta",
    "UsageCounts",
    "decode_chunk",
)
