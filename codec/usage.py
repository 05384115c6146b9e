"""Provider usage objects, of many shapes, to one :class:`Usage` value.

Rules:

1. A count the provider did not report is ``None``; a reported zero is zero (R6).
2. Of several usage objects the last non-null wins, field by field (``dialects.md`` section 1,
   rule 3); nothing is summed, but for llama.cpp's one-per-choice chunks.
3. A total below prompt + completion is wrong at its source: it is left out and noted
   (``span-contract.md`` 1.4). A larger one is legitimate (xAI, Gemini).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("Usage",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts as the provider reported them.

    Attributes:
        prompt: tokens of the request, cached ones included.
        completion: tokens of the answer, in the provider's own count.
        total: the provider's total, absent where inconsistent (rule 3).
        cache_read: the part of ``prompt`` that came from a cache.
        cache_write: the part of ``prompt`` that was written to a cache.
        prompt_audio: the part of ``prompt`` that is audio.
        reasoning: tokens of reasoning.
        completion_audio: the part of ``completion`` that is audio.
        raw: the merged usage object as it was on the wire.
    """

    prompt: int | None = None
    completion: int | None = None
    total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    prompt_audio: int | None = None
    reasoning: int | None = None
    completion_audio: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)
