"""Log probabilities of four shapes as maps (``docs/contract/sources.md#s3-4``)."""

from __future__ import annotations

from typing import Any

from codec.members import list_of, object_of

__all__ = ("TokenLogprobs", "decode_logprobs")

TokenLogprobs = tuple[dict[str, float], ...]
"""For each token the alternatives that were told, itself among them where it was told."""


def decode_logprobs(value: Any, *, text: str = "") -> TokenLogprobs | None:
    """Read the ``logprobs`` of a choice.

    The shapes: a chat's ``content`` of tokens with alternatives; a completion's ``top_logprobs``;
    its ``tokens`` beside ``token_logprobs``; and a single number for the one token of a chunk.

    Args:
        value: the member, of any JSON type.
        text: the chunk's text, which a single number is about.

    Returns:
        ``None`` where there are none.
    """
    if _is_number(value):
        return ({text: value},)
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("content"), list):
        return tuple(_of_token(token) for token in value["content"] if isinstance(token, dict))
    if isinstance(value.get("top_logprobs"), list):
        return tuple(_numbers(top) for top in value["top_logprobs"])
    tokens, numbers = value.get("tokens"), value.get("token_logprobs")
    if isinstance(tokens, list) and isinstance(numbers, list):
        pairs = zip(tokens, numbers, strict=False)
        return tuple(_numbers({token: number}) for token, number in pairs if isinstance(token, str))
    return None


def _of_token(token: dict[str, Any]) -> dict[str, float]:
    told = [*list_of(token.get("top_logprobs")), token]
    return {
        one["token"]: one["logprob"]
        for one in told
        if isinstance(one, dict)
        and isinstance(one.get("token"), str)
        and _is_number(one.get("logprob"))
    }


def _numbers(value: Any) -> dict[str, float]:
    """Return the members that are numbers: the first token of a prompt has none."""
    return {token: number for token, number in object_of(value).items() if _is_number(number)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
