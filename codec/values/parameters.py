"""The parameters that all chats share (``docs/contract/sources.md#s4-6``)."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from codec.text.integers import count_of
from codec.values._members import put

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("GenerationParameters", "decode_parameters")

_LIMITS = ("max_completion_tokens", "max_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationParameters:
    """The parameters of generation.

    Attributes:
        max_tokens: the limit of tokens, whichever key it had.
        max_tokens_key: that key, under which it is written back.
        stop: the stop sequences; one that came as a string is a tuple of one.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_tokens_key: str = "max_completion_tokens"
    stop: tuple[str, ...] | None = None

    def to_json(self) -> JsonObject:
        """Return the members of the request."""
        stop = None if self.stop is None else list(self.stop)
        return put(
            {},
            temperature=self.temperature,
            top_p=self.top_p,
            stop=stop,
            **{self.max_tokens_key: self.max_tokens},
        )


def decode_parameters(body: JsonObject) -> GenerationParameters | None:
    """Read the parameters; ``None`` where none is usable (``docs/contract/sources.md#s4-7``).

    A number may be of either JSON form; a limit is a non-negative integer, and
    ``max_completion_tokens`` comes before ``max_tokens``.
    """
    limits = [(key, body[key]) for key in _LIMITS if _is_limit(body.get(key))]
    key, limit = limits[0] if limits else (_LIMITS[0], None)
    parameters = GenerationParameters(
        temperature=_number(body.get("temperature")),
        top_p=_number(body.get("top_p")),
        max_tokens=limit,
        max_tokens_key=key,
        stop=_stop(body.get("stop")),
    )
    return parameters if parameters.to_json() else None


def _is_limit(value: Any) -> bool:
    return isinstance(value, int) and count_of(value) is not None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or isfinite(value) else None


def _stop(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return tuple(value)
    return None
