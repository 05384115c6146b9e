"""Chunks and usage as typed views, for library users.

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
    Delta,
    FunctionDelta,
    Logprobs,
    TokenLogprob,
    ToolCallDelta,
    decode_chunk,
)
from codec.wire.usage import CompletionDetails, PromptDetails, UsageCounts

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
