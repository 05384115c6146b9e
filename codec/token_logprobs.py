"""Log probabilities of an answer's tokens, in the two forms of chats and legacy completions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.text.jsontext import JsonObject

__all__ = ("TokenLogprob", "chat_logprobs", "text_logprobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """How likely one token was, by the natural logarithm of its probability.

    Attributes:
        alternatives: other tokens and their logarithms; ``None`` if nobody asked for them.
    """

    token: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...] | None = None

    def top(self) -> list[tuple[str, float]]:
        """Return the alternatives, most likely first.

        If alternatives were asked for, the chosen token is one of them
        (``docs/contract/sources.md#s0-9``).
        """
        if self.alternatives is None:
            return []
        known = dict(self.alternatives)
        return sorted({self.token: self.logprob, **known}.items(), key=lambda pair: -pair[1])


def chat_logprobs(logprobs: Sequence[TokenLogprob], *, is_refusal: bool) -> JsonObject | None:
    """Return the ``logprobs`` of a chat's choice; ``None`` if there are none."""
    if not logprobs:
        return None
    entries = [
        _token(one.token, one.logprob) | {"top_logprobs": [_token(*pair) for pair in one.top()]}
        for one in logprobs
    ]
    return {
        "content": None if is_refusal else entries,
        "refusal": entries if is_refusal else None,
    }


def text_logprobs(logprobs: Sequence[TokenLogprob], start: int) -> JsonObject | None:
    """Return the ``logprobs`` of a legacy completion's choice; ``None`` if there are none.

    The first token begins at ``start``, in characters of the text.
    """
    if not logprobs:
        return None
    offsets = []
    for one in logprobs:
        offsets.append(start)
        start += len(one.token)
    asked = any(one.alternatives is not None for one in logprobs)
    return {
        "tokens": [one.token for one in logprobs],
        "token_logprobs": [one.logprob for one in logprobs],
        "top_logprobs": [dict(one.top()) for one in logprobs] if asked else None,
        "text_offset": offsets,
    }


def _token(token: str, logprob: float) -> JsonObject:
    spelt = list(token.encode("utf-8", "surrogatepass"))
    return {"token": token, "logprob": logprob, "bytes": spelt}
