"""The fields of a request's and an answer's head that are recorded in ``metadata.headers``.

One list says which (``docs/contract/spans.md#heads``): fields that help whoever looks at a call,
and are no secret. Fields that carry a credential, a cookie, an organisation, a project or an
address are not in it. The setting ``SPANTAP_RECORD_HEADERS`` adds names, or records none.

The relay copies these fields by their names, and :meth:`AllowedFields.read` takes them out of a
frame. :mod:`telemetry.observing.masked_heads` masks and shortens their values.
"""

from __future__ import annotations

import re
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from telemetry.errors import ConfigurationError
from telemetry.frames.frame import RECORDED_RESPONSE_PREFIXES
from telemetry.privacy.credential_names import looks_like_credential

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from telemetry.frames.frame import Headers

MAX_FIELDS = 32
"""The most fields of one head that are recorded, 64 of both: Anthropic sends some 25."""

MAX_NAME_CHARS = 64
"""The longest name of a field that is found by its beginning: an upstream may send any."""

MAX_ADDED_NAMES = 32
"""The most names that the setting adds: more would take the room of the list."""

MAX_KEPT_SHAPES = 64
"""Heads whose names are remembered, because clients and upstreams send the same ones with each
call. The names of a head take as much memory as the head at most."""

_DEFAULT = "default"
_NONE = "none"
"""The words of the setting: the list below, and no field at all."""

_HEADER_NAME = re.compile(r"[!#$%&'+.^_`|~0-9a-z-]{1,128}")
"""A token of RFC 9110, section 5.6.2, in lower case. No name has a ``*``, because whoever writes
one means the beginning of names."""

REQUEST_FIELDS: Final = frozenset(
    {
        # what is sent, and by which program
        *("content-type", "user-agent", "x-goog-api-client"),
        # versions of APIs and of editors
        *("anthropic-beta", "anthropic-version", "api-version", "openai-beta", "openai-version"),
        *("editor-plugin-version", "editor-version", "x-api-version", "x-github-api-version"),
        # ids that a client gives a request
        *("x-client-request-id", "x-correlation-id", "x-ms-client-request-id", "x-request-id"),
    }
)
"""The fields of a request, in lower case."""

_IDS: Final = (
    *("apim-request-id", "cf-aig-log-id", "cf-ray", "fly-request-id", "helicone-id"),
    *("inference-id", "mistral-correlation-id", "request-id", "x-amz-cf-id", "x-amz-request-id"),
    *("x-amzn-requestid", "x-azure-ref", "x-correlation-id", "x-ds-trace-id", "x-generation-id"),
    *("x-github-request-id", "x-goog-request-id", "x-kong-request-id", "x-litellm-call-id"),
    *("x-ms-client-request-id", "x-ms-request-id", "x-request-id", "x-trace-id", "x-vercel-id"),
)

_TIMES: Final = (
    *("fireworks-server-processing-time", "fireworks-server-time-to-first-token"),
    *("openai-processing-ms", "server-timing", "x-amzn-bedrock-invocation-latency"),
    *("x-compute-time", "x-envoy-upstream-service-time", "x-inference-time"),
    *("x-kong-proxy-latency", "x-kong-upstream-latency", "x-litellm-overhead-duration-ms"),
    *("x-litellm-response-duration-ms", "x-metrics-e2e-ms", "x-process-time", "x-processing-time"),
    *("x-queue-time", "x-response-time", "x-runtime", "x-total-time"),
)

_VERSIONS: Final = (
    *("anthropic-version", "api-supported-versions", "openai-model", "openai-version"),
    *("x-api-version", "x-litellm-version"),
)

_REGIONS: Final = (
    *("fly-region", "x-amz-cf-pop", "x-groq-region", "x-litellm-model-region", "x-ms-region"),
    "x-region",
)

_LIMITS: Final = (
    *("retry-after", "retry-after-ms", "x-ms-retry-after-ms", "x-should-retry"),
    # Cohere's trial keys; ChatGPT's plans, as Codex reads them; GitHub's Copilot
    *("x-endpoint-monthly-call-limit", "x-trial-endpoint-call-limit"),
    "x-trial-endpoint-call-remaining",
    *(
        f"x-codex-{window}-{what}"
        for window in ("primary", "secondary")
        for what in ("used-percent", "window-minutes", "reset-after-seconds", "reset-at")
    ),
    *("x-quota-snapshot-chat", "x-quota-snapshot-completions"),
    *("x-quota-snapshot-premium_interactions", "x-quota-snapshot-premium_models"),
)

ANSWER_FIELDS: Final = frozenset({"content-type", *_IDS, *_TIMES, *_VERSIONS, *_REGIONS, *_LIMITS})
"""The fields of an answer, in lower case, besides those that begin with one of
:data:`ANSWER_PREFIXES`."""

ANSWER_PREFIXES: Final = (*RECORDED_RESPONSE_PREFIXES, b"x-ratelimit", b"x-rate-limit-")
"""Beginnings of the names of rate limits, of all providers that have none of the names above."""

_PREFIXES: Final = tuple(prefix.decode("ascii") for prefix in ANSWER_PREFIXES)


class HeadFields(NamedTuple):
    """Fields of both heads, by name, as they came.

    Attributes:
        asked: those of the request.
        answered: those of the answer.
        left_out: how many there were beyond :data:`MAX_FIELDS`.
    """

    asked: dict[str, str]
    answered: dict[str, str]
    left_out: int = 0


class _Chosen(NamedTuple):
    """The fields of a head with certain names: their places, and how many are left out."""

    places: tuple[int, ...]
    has_repeated: bool
    left_out: int


class AllowedFields:
    """The fields that are recorded. Immutable.

    Args:
        asked: names of fields of a request, in lower case.
        answered: names of fields of an answer.
        prefixes: beginnings of the names of further fields of an answer.
    """

    def __init__(
        self,
        asked: frozenset[str] = REQUEST_FIELDS,
        answered: frozenset[str] = ANSWER_FIELDS,
        prefixes: tuple[str, ...] = _PREFIXES,
    ) -> None:
        self._asked = asked
        self._answered = answered
        self._prefixes = prefixes
        kept = lru_cache(MAX_KEPT_SHAPES)
        self._choose_asked: Callable[[tuple[str, ...]], _Chosen] = kept(self._find_asked)
        self._choose_answered: Callable[[tuple[str, ...]], _Chosen] = kept(self._find_answered)

    @classmethod
    def build(cls, words: Sequence[str] = (_DEFAULT,)) -> AllowedFields:
        """Build it from the words of the setting.

        Args:
            words: ``none`` alone; or names of fields that are recorded besides the list, of both
                heads, and ``default``, which adds nothing.

        Raises:
            ConfigurationError: a word is not the name of a field, or looks like a credential.
        """
        names = [word.strip().lower() for word in words]
        if _NONE in names:
            if len(names) > 1:
                raise ConfigurationError(f"{_NONE} stands alone, because it records no field")
            return cls(frozenset(), frozenset(), ())
        added = frozenset(names) - {_DEFAULT}
        for name in sorted(added):
            if not _HEADER_NAME.fullmatch(name):
                raise ConfigurationError(f"{name!r} is not the name of a header")
            if looks_like_credential(name):
                raise ConfigurationError(
                    f"header {name!r} looks like a credential, and those are never recorded"
                )
        if len(added) > MAX_ADDED_NAMES:
            raise ConfigurationError(f"there are more than {MAX_ADDED_NAMES} names of headers")
        return cls(REQUEST_FIELDS | added, ANSWER_FIELDS | added)

    @property
    def names_asked(self) -> frozenset[bytes]:
        """The names of the fields of a request, for the relay."""
        return frozenset(name.encode("ascii") for name in self._asked)

    @property
    def names_answered(self) -> frozenset[bytes]:
        """The names of the fields of an answer, for the relay."""
        return frozenset(name.encode("ascii") for name in self._answered)

    @property
    def prefixes_answered(self) -> tuple[bytes, ...]:
        """The beginnings of the names of further fields of an answer, for the relay."""
        return tuple(prefix.encode("ascii") for prefix in self._prefixes)

    def read(self, asked: Headers, answered: Headers) -> HeadFields:
        """Take the recorded fields out of two heads; values of repeated fields are joined."""
        of_request = self._choose_asked(tuple(map(_NAME, asked)))
        of_answer = self._choose_answered(tuple(map(_NAME, answered)))
        return HeadFields(
            _take(asked, of_request),
            _take(answered, of_answer),
            of_request.left_out + of_answer.left_out,
        )

    def _find_asked(self, names: tuple[str, ...]) -> _Chosen:
        return _choose(names, (name in self._asked for name in names))

    def _find_answered(self, names: tuple[str, ...]) -> _Chosen:
        wanted, prefixes = self._answered, self._prefixes
        are_wanted = (
            name in wanted or (len(name) <= MAX_NAME_CHARS and name.startswith(prefixes))
            for name in names
        )
        return _choose(names, are_wanted)


NO_HEADS: Final = AllowedFields(frozenset(), frozenset(), ())
"""No field is recorded."""

_NAME: Final[Callable[[tuple[str, str]], str]] = itemgetter(0)


def _choose(names: tuple[str, ...], are_wanted: Iterable[bool]) -> _Chosen:
    """Choose the fields, in their order; of one name all, or none."""
    room: dict[str, None] = {}
    left_out: set[str] = set()
    places: list[int] = []
    for place, (name, is_wanted) in enumerate(zip(names, are_wanted, strict=True)):
        if not is_wanted:
            continue
        if name in room or len(room) < MAX_FIELDS:
            room[name] = None
            places.append(place)
        else:
            left_out.add(name)
    return _Chosen(tuple(places), len(room) < len(places), len(left_out))


def _take(headers: Headers, chosen: _Chosen) -> dict[str, str]:
    fields: Any = map(headers.__getitem__, chosen.places)
    if not chosen.has_repeated:
        return dict(fields)
    joined: dict[str, str] = {}
    for name, value in fields:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
