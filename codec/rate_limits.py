"""Reads what providers say about their rate limits in the head of an answer.

A field is about one limit and says how much it is, how much of it is left, or when it begins anew:
``x-ratelimit-remaining-tokens: 149984``, ``anthropic-ratelimit-input-tokens-reset``. The words
between are the name of the limit. Some fields say how much was used (Claude's and ChatGPT's plans),
or describe several limits at once (the IETF's draft ``ratelimit-headers``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ("RateLimit", "read_rate_limits")

MAX_LIMITS: Final = 32
"""The most limits of one answer; Anthropic has a dozen."""

MAX_NAME_CHARS: Final = 64

UNNAMED: Final = "limit"
"""The name of a limit whose fields give it none: ``x-ratelimit-remaining``."""

_NUMBER = re.compile(r"\s*(-?[0-9]{1,15}(?:\.[0-9]{1,9})?)(?![\w.:-])")
"""The first number of a value: ``100, 100;w=60`` has two policies. A time is no number."""

_FIELD = re.compile(r"(?:x-|anthropic-)?rate-?limit-?(.*)")

_KINDS: Final = frozenset({"limit", "remaining", "reset", "utilization"})

_OF_RESET: Final = ("-after", "-at", "-seconds")
"""Ends of a name that say how its reset is written."""

_OTHERS: Final = {
    "x-trial-endpoint-call-limit": ("trial-calls", "limit"),  # Cohere
    "x-trial-endpoint-call-remaining": ("trial-calls", "remaining"),
    **{
        f"x-codex-{window}-{word}": (f"codex-{window}", kind)
        for window in ("primary", "secondary")
        for word, kind in (
            ("used-percent", "percent"),
            ("reset-after-seconds", "reset"),
            ("reset-at", "reset"),
        )
    },
}
"""Fields with names of another form: what they are about, and what they say of it."""

_QUOTA: Final = "x-quota-snapshot-"
"""GitHub's Copilot: ``ent=300&rem=83.3&rst=2026-12-01T00%3A00%3A00Z``, the rest in per cent."""

_ITEM = re.compile(r'\s*"([^"]{0,64})"((?:\s*;\s*\w+=[^;,]*)*)')
_PARAMETER = re.compile(r"(\w+)\s*=\s*([^;,&\s]+)")
_NEAR: Final = 0.1

_OLD_ITEM: Final = frozenset({"limit", "remaining", "reset"})


class RateLimit(NamedTuple):
    """A limit of a provider, as an answer describes it.

    Attributes:
        name: what is limited, in the provider's words, such as ``input-tokens``.
        left: the share that is left, from 0 to 1.
        remaining: how much is left; ``None`` if only the share is known.
        limit: how much there is in all.
        reset: when it begins anew, as the provider wrote it: a time, or a duration.
    """

    name: str
    left: float
    remaining: float | None = None
    limit: float | None = None
    reset: str | None = None

    @property
    def is_near(self) -> bool:
        """Whether less than a tenth is left."""
        return self.left < _NEAR


def read_rate_limits(headers: Mapping[str, str]) -> list[RateLimit]:
    """Read the limits of which it is known how much is left, the nearest one first.

    Args:
        headers: names in lower case and values; others than those about limits are ignored.

    >>> read_rate_limits({"x-ratelimit-limit-tokens": "50", "x-ratelimit-remaining-tokens": "5"})
    [RateLimit(name='tokens', left=0.1, remaining=5.0, limit=50.0, reset=None)]
    """
    said: dict[str, dict[str, str]] = {}
    for name, value in headers.items():
        for limit, kind, text in _read_field(name, value):
            if limit in said or len(said) < MAX_LIMITS:
                said.setdefault(limit, {}).setdefault(kind, text)
    made = [_make_limit(name, values) for name, values in said.items()]
    return sorted(filter(None, made), key=lambda limit: limit.left)


def _read_field(name: str, value: str) -> Iterator[tuple[str, str, str]]:
    """Yield what a field says: the limit's name, the kind of statement, and its text."""
    if name in _OTHERS:
        yield *_OTHERS[name], value
    elif name.startswith(_QUOTA):
        limit = name.removeprefix(_QUOTA)[:MAX_NAME_CHARS]
        quota = dict(_PARAMETER.findall(value))
        for member, kind in (("rem", "left percent"), ("ent", "limit"), ("rst", "reset")):
            if member in quota:
                yield limit, kind, unquote(quota[member])
    elif (field := _FIELD.fullmatch(name)) is not None:
        yield from _read_named(field[1], value)


def _read_named(rest: str, value: str) -> Iterator[tuple[str, str, str]]:
    """Read a field by what its name has after ``ratelimit``."""
    if rest in {"", "policy"}:
        yield from _read_items(value, is_policy=rest == "policy")
        return
    words = rest.split("-")
    kind = next((word for word in words if word in _KINDS), None)
    if kind is None:
        return
    words.remove(kind)
    limit = "-".join(words)
    if kind == "reset":
        for end in _OF_RESET:
            limit = f"-{limit}".removesuffix(end).removeprefix("-")
    yield limit[:MAX_NAME_CHARS] or UNNAMED, kind, value


def _read_items(value: str, *, is_policy: bool) -> Iterator[tuple[str, str, str]]:
    """Read a list of the IETF's draft: ``"default";r=50;t=30``, or ``limit=100, remaining=50``."""
    kinds = {"q": "limit"} if is_policy else {"r": "remaining", "t": "reset"}
    found = False
    for name, parameters in _ITEM.findall(value):
        found = True
        for word, text in _PARAMETER.findall(parameters):
            if word in kinds:
                yield name or UNNAMED, kinds[word], text
    if not found and not is_policy:
        for word, text in _PARAMETER.findall(value):
            if word in _OLD_ITEM:
                yield UNNAMED, word, text


def _make_limit(name: str, said: Mapping[str, str]) -> RateLimit | None:
    """Make a limit of what was said of it; ``None`` if nobody said how much is left."""
    remaining, limit = _number(said.get("remaining")), _number(said.get("limit"))
    left = None
    if remaining is not None and limit is not None and limit > 0:
        left = remaining / limit
    elif (used := _number(said.get("utilization"))) is not None:
        left = 1 - used
    elif (percent := _number(said.get("percent"))) is not None:
        left = 1 - percent / 100
    elif (percent := _number(said.get("left percent"))) is not None and (limit or 0) >= 0:
        left = percent / 100
    if left is None:
        return None
    left = round(min(1.0, max(0.0, left)), 6)
    return RateLimit(name, left, remaining, limit, said.get("reset"))


def _number(text: str | None) -> float | None:
    found = None if text is None else _NUMBER.match(text)
    return None if found is None else float(found[1])
