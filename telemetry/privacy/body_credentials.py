"""Credentials that a request's body carries, found in the places where providers take them (R7).

The places are known: members that name further servers (:attr:`codec.asked.Asked.server_members`),
tools that are not functions (MCP), headers and keys for a gateway. Messages, prompts and the
schemas of functions are content and are not searched. Every request is searched in the places of
all APIs, because gateways accept more members than their API has.

A credential that was found is masked wherever it is recorded, because providers quote what they
refuse. What is relayed is not touched.

A body that is not JSON is searched only for names (:mod:`telemetry.privacy.named_credentials`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from codec.apis.table import APIS, TOOL_LISTS
from codec.members import list_of
from telemetry.privacy.credentials import (
    MAX_CREDENTIALS,
    MIN_CREDENTIAL_CHARS,
    NO_CREDENTIALS,
    Credentials,
)
from telemetry.privacy.named_credentials import find_named, is_credential_name, plain_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


MAX_LOOKED_VALUES = 10_000
"""Values in all places of a body: real ones hold some dozens, and this many take ten milliseconds.
If there are more, or more than :data:`~telemetry.privacy.credentials.MAX_CREDENTIALS` credentials,
all text of the call is masked (R5)."""

_PLACES: Final = frozenset(
    {
        "connectors",  # Cohere
        *("litellm_params", "fallbacks", "model_list"),  # LiteLLM
        *("providerOptions", "provider_options"),  # Vercel's gateway: the user's own keys
        *("headers", "extra_headers", "extra_body"),  # LiteLLM, and slips in the use of SDKs
    }
).union(*(api.asked.server_members for api in APIS))
"""Members of a body that are searched as a whole."""

_KEYS: Final = frozenset(
    {
        *("api_key", "apiKey", "api-key", "authorization", "Authorization"),
        *("access_token", "azure_ad_token", "aws_secret_access_key", "aws_session_token"),
        "vertex_credentials",
    }
)
"""Members of a body that are credentials themselves; LiteLLM accepts all of these."""

_ACCOUNTS: Final = frozenset({"project"})
"""Members of a body that name the caller's account, and are masked like credentials: Code Assist's
project."""

_LOOKED_AT: Final = _PLACES | _KEYS | _ACCOUNTS

_HOLDERS: Final = TOOL_LISTS | {"tools"}
"""Members of a body that may hold tools."""

_FUNCTION_MEMBERS: Final = frozenset[str]().union(*(api.asked.function_members for api in APIS))
"""Members of a tool that describe a function."""

_HEADERS: Final = frozenset({"headers", "extra-headers", "http-headers"})
_HARMLESS_HEADERS: Final = frozenset(
    {
        *("accept", "accept-encoding", "accept-language", "cache-control", "content-type"),
        *("http-referer", "origin", "referer", "user-agent", "x-title"),
    }
)

_IN_QUERY = re.compile(r"[?&]([^=&#]{1,64})=([^&#]+)")
_IN_AUTHORITY = re.compile(r"^[a-z]{2,5}://([^/?#]+)@", re.IGNORECASE)


def find_body_credentials(body: Mapping[str, Any] | None, text: bytes | None) -> Credentials:
    """The credentials that a body carries: in its members or, if it has none, in its text."""
    if body is not None:
        if _LOOKED_AT.isdisjoint(body) and body.keys().isdisjoint(_HOLDERS):
            return NO_CREDENTIALS
        places = list(_find_places(body))
        return _collect(places) if places else NO_CREDENTIALS
    if not text:
        return NO_CREDENTIALS
    return _collect_named(text, is_prose=False)


def redact_named(words: str) -> str:
    """Return a provider's error text without values under the names of credentials."""
    found = _collect_named(words.encode("utf-8", "replace"), is_prose=True)
    return found.redact_quote(words) if found else words


def _collect_named(text: bytes, *, is_prose: bool) -> Credentials:
    found: set[str] = set()
    try:
        for value in find_named(text, is_prose=is_prose):
            found.add(value)
            if len(found) > MAX_CREDENTIALS:
                return Credentials(too_many=True)
    except OverflowError:
        return Credentials(too_many=True)
    return Credentials(found)


def _find_places(members: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield names and values to look at."""
    if not _LOOKED_AT.isdisjoint(members):
        yield from ((name, members[name]) for name in members.keys() & _LOOKED_AT)
    items = [item for name in TOOL_LISTS for item in list_of(members.get(name))]
    for holder in (members, *items):
        tools = list_of(holder.get("tools")) if isinstance(holder, dict) else ()
        for tool in tools:
            if isinstance(tool, dict) and tool.get("type") != "function":
                yield from ((name, tool[name]) for name in tool.keys() - _FUNCTION_MEMBERS)


def _collect(places: list[tuple[str, Any]]) -> Credentials:
    found: set[str] = set()
    waiting = [(plain_name(name), value, False) for name, value in places]
    for _ in range(MAX_LOOKED_VALUES):
        if not waiting or len(found) > MAX_CREDENTIALS:
            break
        name, value, in_headers = waiting.pop()
        if isinstance(value, str):
            found |= _forms(value) if _is_credential(name, in_headers) else _in_url(value)
        elif isinstance(value, dict):
            waiting += (
                # `{"authorization": {"type": ..., "value": ...}}`, as in Mistral's connectors
                (name if inner == "value" else plain_name(inner), item, name in _HEADERS)
                for inner, item in value.items()
            )
        elif isinstance(value, list):
            waiting += ((name, item, in_headers) for item in value)
    if waiting or len(found) > MAX_CREDENTIALS:
        return Credentials(too_many=True)
    return Credentials(found)


def _is_credential(name: str, in_headers: bool) -> bool:  # noqa: FBT001 - private, one caller
    # Every header counts unless it is known to be harmless.
    if in_headers:
        return name not in _HARMLESS_HEADERS
    return name in _ACCOUNTS or is_credential_name(name)


def _in_url(text: str) -> set[str]:
    """The credentials in a URL: its user, and values of its query with names of credentials."""
    if "://" not in text:
        return set()
    found: set[str] = set()
    if user := _IN_AUTHORITY.match(text):
        found |= _forms(user[1]).union(*map(_forms, user[1].split(":")))
    for name, value in _IN_QUERY.findall(text):
        if _is_credential(plain_name(name), in_headers=False):
            found |= _forms(value)
    return found


def _forms(value: str) -> set[str]:
    """A credential as it is written, without its scheme, and without escapes of URLs."""
    forms = {value, value.rpartition(" ")[2], unquote(value)}
    return {form for form in forms if len(form) >= MIN_CREDENTIAL_CHARS}
