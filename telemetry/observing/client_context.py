"""Sessions, users, tags and metadata: what a client says of its calls, by header or in the body.

Only headers in the map are read. The map has the headers of the common tools, and ours,
``x-spantap-*``; only ours never reach the upstream. The settings add headers to the map, or remove
them. A header wins over the body, and an earlier name in the map over a later one
(``docs/contract/spans.md#client-context``).

A header that carries credentials cannot be mapped: such a setting is refused at start, and such a
header is not read if it is named only by a prefix. In JSON in a header, a member whose name says
that it carries credentials is not read, either (R7).

Empty values count as absent, and long ones are cut (R5). The proxy limits the size of headers.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace
from openinference.semconv.trace import SpanAttributes

from codec.text.jsontext import decode_json_object
from telemetry.errors import ConfigurationError
from telemetry.launch_labels import read_name
from telemetry.observing.agent_ids import AGENT_HEADS
from telemetry.observing.client_headers import HEADERS_OF_AGENTS
from telemetry.observing.exchange import ClientContext
from telemetry.privacy.credential_names import (
    MAX_METADATA_DEPTH,
    looks_like_credential,
    without_credentials,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.asked import Asked

MAX_CONTEXT_CHARS = 1_024
"""Longest id or tag: longer than any real one, short enough for the index of a backend."""

MAX_CONTEXT_ENTRIES = 64
"""The most tags of one call, and the most members of its metadata: OpenAI takes 16 members."""

_METADATA_PREFIX = "metadata."

_IGNORED = "ignore"
"""The target that removes a header from the map."""

_ATTRIBUTES = frozenset(
    {
        SpanAttributes.LLM_PROMPT_TEMPLATE,
        SpanAttributes.LLM_PROMPT_TEMPLATE_VARIABLES,
        SpanAttributes.LLM_PROMPT_TEMPLATE_VERSION,
        SpanAttributes.PROMPT_ID,
        SpanAttributes.PROMPT_VENDOR,
        SpanAttributes.PROMPT_URL,
    }
)
"""Attributes that have the value of a header as it is."""

_TARGETS = _ATTRIBUTES | {
    SpanAttributes.SESSION_ID,
    SpanAttributes.USER_ID,
    SpanAttributes.TAG_TAGS,
    SpanAttributes.METADATA,
}
"""Attributes that a header may be mapped to, besides members of the metadata."""

_DEFAULT_MAP: Final = {
    "x-spantap-session-id": SpanAttributes.SESSION_ID,
    "x-spantap-user-id": SpanAttributes.USER_ID,
    "x-spantap-tags": SpanAttributes.TAG_TAGS,
    "x-spantap-metadata": SpanAttributes.METADATA,
    "x-spantap-metadata-*": f"{_METADATA_PREFIX}*",
    "x-spantap-prompt-template": SpanAttributes.LLM_PROMPT_TEMPLATE,
    "x-spantap-prompt-template-variables": SpanAttributes.LLM_PROMPT_TEMPLATE_VARIABLES,
    "x-spantap-prompt-template-version": SpanAttributes.LLM_PROMPT_TEMPLATE_VERSION,
    "x-spantap-prompt-id": SpanAttributes.PROMPT_ID,
    "x-spantap-prompt-vendor": SpanAttributes.PROMPT_VENDOR,
    "x-spantap-prompt-url": SpanAttributes.PROMPT_URL,
    "agent-session-id": SpanAttributes.SESSION_ID,
    "x-session-id": SpanAttributes.SESSION_ID,
    "helicone-session-id": SpanAttributes.SESSION_ID,
    "helicone-user-id": SpanAttributes.USER_ID,
    "helicone-property-*": f"{_METADATA_PREFIX}*",
    **HEADERS_OF_AGENTS,
}

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
"""A token of RFC 9110, section 5.6.2, in lower case."""

_NOTHING_SAID = ClientContext()
"""The context of most calls."""

_PROMPT_PARTS = frozenset(
    {SpanAttributes.LLM_PROMPT_TEMPLATE, SpanAttributes.LLM_PROMPT_TEMPLATE_VARIABLES}
)
"""Attributes that are content."""

_SESSION_MEMBERS = ("session_id", "sessionId", "session.id")
_USER_MEMBERS = ("user_id", "userId", "user.id")


@dataclass(frozen=True, slots=True)
class HeaderMap:
    """The request headers that say something of a call.

    Attributes:
        exact: lower-case header names to attribute names, or to ``metadata.<member>``.
        prefixes: the same for names that end in ``*``, without it; the rest of a header's name is
            the member.
        ignored: header names that are not read, though a prefix may name them.
        of_agents: headers in `exact` that agents send by themselves
            (:mod:`telemetry.observing.client_headers`). They count only if no other header says the
            same.
        places: the order in which headers in `exact` win.
    """

    exact: Mapping[str, str]
    prefixes: Mapping[str, str]
    ignored: frozenset[str]
    of_agents: frozenset[str]
    places: Mapping[str, int]

    @classmethod
    def build(cls, added: Mapping[str, str] | None = None) -> HeaderMap:
        """Build the default map with what the settings add.

        Args:
            added: header names to attribute names, to ``metadata.<member>`` or to ``ignore``; a
                name that ends in ``*`` goes with ``metadata.*``.

        Raises:
            ConfigurationError: a header or a target cannot be used.
        """
        entries: dict[str, str] = {}
        for spelled, target in (added or {}).items():
            if (name := spelled.strip().lower()) in entries:
                raise ConfigurationError(f"header {name!r} is there twice")
            entries[name] = target.strip()
        for name, target in entries.items():
            _check_entry(name, target)
        # Added headers come first and so win over the defaults.
        merged = {**entries, **{k: v for k, v in _DEFAULT_MAP.items() if k not in entries}}
        wanted = {name: target for name, target in merged.items() if target != _IGNORED}
        exact = {name: target for name, target in wanted.items() if not name.endswith("*")}
        return cls(
            exact=exact,
            prefixes={
                name.removesuffix("*"): target.removesuffix("*")
                for name, target in wanted.items()
                if name.endswith("*")
            },
            ignored=frozenset(name for name, target in merged.items() if target == _IGNORED),
            of_agents=frozenset(HEADERS_OF_AGENTS.keys() - entries.keys()),
            places={name: place for place, name in enumerate(exact)},
        )

    @property
    def names(self) -> frozenset[bytes]:
        """The names of the headers that are read, also those with ids of agents alone.

        They are in lower case.
        """
        return frozenset(
            name.encode("ascii") for name in {*self.exact, *(AGENT_HEADS - self.ignored)}
        )

    @property
    def name_prefixes(self) -> tuple[bytes, ...]:
        """The beginnings of the names of further headers that are read."""
        return tuple(prefix.encode("ascii") for prefix in self.prefixes)

    def target(self, name: str) -> str | None:
        """Find what a header (lower case) becomes; ``None`` if it is not read."""
        if (target := self.exact.get(name)) is not None:
            return target
        if name in self.ignored or looks_like_credential(name):
            return None
        for prefix, target in self.prefixes.items():
            if name.startswith(prefix) and len(name) > len(prefix):
                return target + name[len(prefix) :]
        return None

    def read(self, headers: tuple[tuple[str, str], ...]) -> ClientContext:
        """Read the headers of a call; names are in lower case, values are bytes read as Latin-1."""
        beginnings = tuple(self.prefixes)
        said = [
            (name, text)
            for name, value in headers
            if (name in self.exact or name.startswith(beginnings)) and (text := _header_text(value))
        ]
        if not said:
            return _NOTHING_SAID
        values: dict[str, str] = {}
        unasked: dict[str, str] = {}
        last = len(self.places)
        for name, text in sorted(said, key=lambda pair: self.places.get(pair[0], last)):
            target = self.target(name)
            if name in self.of_agents:
                unasked.setdefault(self.exact[name], text[:MAX_CONTEXT_CHARS])
            elif target == SpanAttributes.TAG_TAGS and target in values:
                values[target] += f",{text}"  # a list continues (RFC 9110, section 5.3)
            elif target:
                values.setdefault(target, text)
        return _context_of(values, unasked) if values or unasked else _NOTHING_SAID


def add_body_context(request: Asked | None, context: ClientContext) -> ClientContext:
    """Add what the body says, in its API's words, to what the headers said.

    A conversation at the provider is the session, and the id of a stored prompt is the prompt's id.
    The prompt's version and the response before this one are metadata. The user is ``user``, else
    ``safety_identifier``. The object ``metadata`` is metadata, and its ``session_id``, ``user_id``
    and ``tags`` also mean what their names say. ``prompt_cache_key`` is metadata and not a session,
    because many requests share one. A user never becomes a session.
    """
    if request is None or request.body.keys().isdisjoint(request.context_members):
        return context
    members = request.labels
    user = request.user_id or _first_text(members, *_USER_MEMBERS)
    merged: dict[str, object] = dict(islice(members.items(), MAX_CONTEXT_ENTRIES))
    merged.update({name: text[:MAX_CONTEXT_CHARS] for name, text in request.references.items()})
    merged.update(context.metadata)
    conversation = request.conversation_id and request.conversation_id[:MAX_CONTEXT_CHARS]
    session = request.session_id or _first_text(members, *_SESSION_MEMBERS)
    prompt = request.prompt_id
    named = {SpanAttributes.PROMPT_ID: prompt[:MAX_CONTEXT_CHARS]} if prompt else {}
    tags = members.get("tags")
    return ClientContext(
        session_id=context.session_id or conversation or (session and session[:MAX_CONTEXT_CHARS]),
        conversation_id=conversation,
        user_id=context.user_id or (user and user[:MAX_CONTEXT_CHARS]),
        metadata=merged,
        tags=context.tags or (_texts(tags) if isinstance(tags, list) else ()),
        attributes={**named, **context.attributes},
    )


def without_inputs(context: ClientContext) -> ClientContext:
    """Remove parts of the prompt from what the headers said."""
    kept = {name: text for name, text in context.attributes.items() if name not in _PROMPT_PARTS}
    return context if len(kept) == len(context.attributes) else replace(context, attributes=kept)


def add_launch(context: ClientContext, label: str) -> ClientContext:
    """Add the name of a launch as the first tag; an empty label adds nothing."""
    if not label:
        return context
    name = read_name(label)
    others = (tag for tag in context.tags if tag != name)
    return replace(context, tags=tuple(islice((name, *others), MAX_CONTEXT_ENTRIES)))


def _context_of(values: Mapping[str, str], unasked: Mapping[str, str]) -> ClientContext:
    """Make a context from values by target, and from values that agents send by themselves."""
    tags = values.get(SpanAttributes.TAG_TAGS, "").split(",")
    whole = values.get(SpanAttributes.METADATA)
    asked = {**(_members(whole) if whole else {}), **_named_members(values)}
    metadata = {**asked, **_named_members(unasked), **asked}
    return ClientContext(
        session_id=_first_text({**unasked, **values}, SpanAttributes.SESSION_ID),
        user_id=_first_text(values, SpanAttributes.USER_ID),
        metadata=dict(islice(metadata.items(), MAX_CONTEXT_ENTRIES)),
        tags=_texts([tag.strip() for tag in tags]),
        attributes={name: text for name, text in values.items() if name in _ATTRIBUTES},
    )


def _named_members(values: Mapping[str, str]) -> dict[str, str]:
    """Find the members of the metadata among values by target."""
    return {
        target.removeprefix(_METADATA_PREFIX): text
        for target, text in values.items()
        if target.startswith(_METADATA_PREFIX)
    }


def _check_entry(name: str, target: str) -> None:
    where = f"header {name!r}"
    if not _HEADER_NAME.fullmatch(name) or "*" in name[:-1]:
        raise ConfigurationError(f"{where} is not a header name")
    if target == _IGNORED:
        return
    if looks_like_credential(name):
        raise ConfigurationError(f"{where} looks like a credential, and those are never recorded")
    if name.endswith("*"):
        if len(name) == 1:
            raise ConfigurationError(f"{where} names all headers; name the beginning of some")
        if target != f"{_METADATA_PREFIX}*":
            raise ConfigurationError(f"{where} must go with 'metadata.*', not with {target!r}")
    elif "*" in target or not (
        target in _TARGETS
        or (target.startswith(_METADATA_PREFIX) and len(target) > len(_METADATA_PREFIX))
    ):
        known = ", ".join(sorted(_TARGETS))
        raise ConfigurationError(
            f"{where} cannot become {target!r}: known are {known}, metadata.<member> and {_IGNORED}"
        )


def _members(text: str) -> dict[str, Any]:
    """Read the members of a JSON object in a header; other text is the member ``metadata``."""
    try:
        members = decode_json_object(text.encode())
    except ValueError:
        return {"metadata": text}
    return dict(without_credentials(members, MAX_METADATA_DEPTH))


def _header_text(value: str) -> str:
    """Decode a header's value as UTF-8 if possible (RFC 9110 leaves it open), else as Latin-1."""
    with contextlib.suppress(UnicodeError):
        value = value.encode("latin-1").decode("utf-8")
    return value.strip()


def _first_text(members: Mapping[str, Any], *names: str) -> str | None:
    for name in names:
        text = members.get(name)
        if isinstance(text, str) and text:
            return text[:MAX_CONTEXT_CHARS]
    return None


def _texts(values: list[Any]) -> tuple[str, ...]:
    texts = (value[:MAX_CONTEXT_CHARS] for value in values if isinstance(value, str) and value)
    return tuple(islice(texts, MAX_CONTEXT_ENTRIES))
