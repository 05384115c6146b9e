"""Masks the recorded fields of both heads, and what else the record of a call has of them (R7).

Whatever has the form of a key is masked in them, names included, whether a pattern asks for it or
not, because nobody expects a secret in ``metadata.headers``. A provider may quote a request in its
fields, too, such as the id of the call (:mod:`telemetry.observing.provider_words`).
"""

from __future__ import annotations

import contextlib
import re
from functools import cache, lru_cache
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from telemetry.frames.frame import RECORDED_RESPONSE_PREFIXES
from telemetry.observing.heads import MAX_KEPT_SHAPES, MAX_NAME_CHARS
from telemetry.observing.provider_words import drop_last_word
from telemetry.privacy.body_credentials import redact_named
from telemetry.privacy.json_strings import REDACTED
from telemetry.privacy.redaction import Redaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from telemetry.frames.frame import Headers
    from telemetry.observing.heads import AllowedFields, HeadFields
    from telemetry.privacy.credentials import Credentials

_MAX_RATE_LIMITS = 32
"""The most rate-limit headers of one answer: OpenAI sends six, Anthropic sixteen."""

_RATE_LIMIT_PREFIXES = tuple(prefix.decode("ascii") for prefix in RECORDED_RESPONSE_PREFIXES)

_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "apim-request-id", "x-ms-request-id", "cf-ray")
"""Headers with the call's id, in order of preference (OpenAI, Anthropic, Azure, Azure,
Cloudflare)."""

MAX_FIELD_BYTES: Final = 256
"""The most bytes of a recorded field of a head, as UTF-8: a user agent has some 40, and a list of
betas some 200."""

_ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"

_MAX_PLAIN_VALUES = 4_096
"""Values of fields that are remembered as harmless. Most of a call are those of the call before."""

_MIN_SECRET_CHARS = 12
"""The shortest value that has a credential with a name before it: ``pwd=`` and eight characters.
Keys that are known by their form are longer."""

_KEY_MARKS: Final = (
    *("sk-", "k_", "akia", "asia", "aiza", "gh", "_pat_", "glpat-", "hf_", "r8_", "xai-", "pplx-"),
    *("nvapi-", "xox", "bearer", "eyj"),
)
"""Texts of which the ready-made pattern of keys needs one, in lower case."""

_NAME_MARKS: Final = (
    *("key", "token", "secret", "passw", "passphrase", "pwd", "auth", "cookie", "credential"),
    *("jwt", "sig", "string", "bearer"),
)
"""Parts of the names under which :func:`redact_named` looks for credentials, in lower case."""

_MARKS: Final = (*_KEY_MARKS, *_NAME_MARKS)

_SECRET_BEGINS = re.compile(
    rf"{'|'.join(_KEY_MARKS)}|(?:{'|'.join(_NAME_MARKS)})[^\n]{{0,24}}?(?:[=:<>]|%3[ad])"
)

_plain_values: set[str] = set()
"""The values that are known to need no mask; any thread may add some."""

_NAME: Final[Callable[[tuple[str, str]], str]] = itemgetter(0)


class ReadHeads(NamedTuple):
    """What two heads say, masked.

    Attributes:
        request_id: the provider's id of the call.
        rate_limits: the headers about its limits, and ``retry-after``.
        agent: the client's program.
        heads: the member ``headers`` of the metadata; empty if no field is recorded.
    """

    request_id: str | None
    rate_limits: Mapping[str, str]
    agent: str | None
    heads: Mapping[str, Any]


def read_headers(
    asked: Headers,
    answered: Headers,
    recorded: AllowedFields,
    credentials: Credentials,
    agent: str | None = None,
) -> ReadHeads:
    """Read the heads of a request and of its answer.

    All values and names are looked at together first, because almost never one of them has to be
    changed.
    """
    values = dict(answered)
    request_id = next(filter(None, map(values.get, _REQUEST_ID_HEADERS)), None)
    limits = _find_limits(answered)
    fields = recorded.read(asked, answered)
    shown = [request_id or "", *fields.asked.values(), *fields.answered.values(), *fields.answered]
    if not limits.keys() <= fields.answered.keys():
        shown += [*limits, *limits.values()]
    if agent and "user-agent" not in fields.asked:
        shown.append(agent)
    together = "\n".join(shown)
    if not (credentials and _may_quote(together, credentials)) and _are_plain(together, shown):
        return ReadHeads(request_id, limits, agent, _build_member(fields))
    redact, quoted = credentials.redact, credentials.redact_quote
    return ReadHeads(
        request_id and _show(request_id, quoted),
        {_show_name(name, credentials): _show(text, quoted) for name, text in limits.items()},
        agent and _mask(agent, redact),
        _build_member(
            fields._replace(
                asked={name: _show(text, redact) for name, text in fields.asked.items()},
                answered={
                    _show_name(name, credentials): _show(text, quoted)
                    for name, text in fields.answered.items()
                },
            )
        ),
    )


def _may_quote(together: str, credentials: Credentials) -> bool:
    """Tell whether values or names may have a credential of the request's head."""
    is_quoted = credentials.redact_quote(together) is not together
    return is_quoted or credentials.redact_name(together) != together


def _find_limits(headers: Headers) -> dict[str, str]:
    places = _find_limit_places(tuple(map(_NAME, headers)))
    limits: dict[str, str] = dict(map(headers.__getitem__, places))
    if len(limits) > _MAX_RATE_LIMITS:
        limits = dict(islice(limits.items(), _MAX_RATE_LIMITS))
    return limits


@lru_cache(MAX_KEPT_SHAPES)
def _find_limit_places(names: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(
        place
        for place, name in enumerate(names)
        if (name.startswith(_RATE_LIMIT_PREFIXES) and len(name) <= MAX_NAME_CHARS)
        or name == "retry-after"
    )


def _build_member(fields: HeadFields) -> dict[str, Any]:
    """Build ``metadata.headers``, of which each part is there only if it has something."""
    asked, answered, left_out = fields
    member: dict[str, Any] = {}
    if asked:
        member["request"] = asked
    if answered:
        member["response"] = answered
    if left_out:
        member["left_out"] = left_out
    return member


def _are_plain(together: str, values: list[str]) -> bool:
    """Tell whether all values can be shown as they are, as those of almost every call."""
    if not together.isascii():
        return False
    new = [value for value in set(values) - _plain_values if len(value) >= _MIN_SECRET_CHARS]
    if not new:
        return True
    text, plain = "\n".join(new).lower(), new
    if any(map(text.__contains__, _MARKS)):
        plain = [value for value in new if not _may_hold_secret(value)]
    if max(map(len, new)) > MAX_FIELD_BYTES:
        return False
    if len(_plain_values) > _MAX_PLAIN_VALUES:
        _plain_values.clear()
    _plain_values.update(plain)
    return len(plain) == len(new)


def _may_hold_secret(value: str) -> bool:
    return _SECRET_BEGINS.search(value.lower()) is not None


def _show(value: str, redact: Callable[[str], str]) -> str:
    """Decode a value as UTF-8 if possible, mask it, and cut it."""
    if not value.isascii():
        with contextlib.suppress(UnicodeError):
            value = value.encode("latin-1").decode("utf-8")
    return _shorten(_mask(value, redact))


def _show_name(name: str, credentials: Credentials) -> str:
    """Mask the name of a field, which is in lower case; some keys have capitals alone."""
    masked = _keys().redact_text(credentials.redact_name(name))
    capitals = masked.upper()
    return masked if _keys().redact_text(capitals) == capitals else REDACTED


def _mask(value: str, redact: Callable[[str], str]) -> str:
    return _keys().redact_text(redact_named(redact(value)))


def _shorten(text: str) -> str:
    """Cut a text to :data:`MAX_FIELD_BYTES`, with an ellipsis, where no half secret is left.

    It ends before the last member of its list, or else before its last word.
    """
    written = text.encode("utf-8", "replace")
    if len(written) <= MAX_FIELD_BYTES:
        return text
    begun = written[: MAX_FIELD_BYTES - len(_ELLIPSIS.encode())].decode("utf-8", "ignore")
    whole, comma, _ = begun.rpartition(",")
    return (whole + comma if comma else drop_last_word(begun)) + _ELLIPSIS


@cache
def _keys() -> Redaction:
    """The ready-made pattern of keys, made when a head may have one."""
    return Redaction({}, ready_made=("api_key",))
