"""The settings as people may see them: name, value and source of each, without secrets (R7).

``spantap check --settings`` prints this list. The page's process gets it finished, and nothing of
what it was made from. A URL of an upstream needs no mask: one with a user or a query is refused.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from proxy.settings.sources import FLAGS, TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy.settings.settings import Settings

_HIDDEN: Final = "***"

_KEYS: Final = frozenset({"inbound_keys", "page_token"})
"""Settings that are keys. We have only their digests, and show neither."""

_PATTERNS: Final = "redact_patterns"
"""What somebody wants to hide may be written in a pattern as it is; its name is enough."""

_OTHERS: Final = re.compile(r"(OTEL|OPENINFERENCE)_\w+|(HTTPS?|ALL|NO)_PROXY", re.IGNORECASE)
"""Variables of others that spantap follows."""

_ATTRIBUTES: Final = "OTEL_RESOURCE_ATTRIBUTES"
_ATTRIBUTE: Final = re.compile(r"([^=,]*)=([^,]*)")
"""A name and its value, of a list with commas."""

_SECRET: Final = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL|HEADERS", re.IGNORECASE)
_ADDRESS: Final = re.compile("ENDPOINT|PROXY|URL", re.IGNORECASE)


class ShownSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as people see it.

    Attributes:
        name: its key in the file, or the variable of another standard.
        value: as text, secrets masked; ``None`` if it is not set.
        source: ``command line``, ``variable``, ``file``, ``default``, ``spantap run``, or
            ``not read`` if the command does not use it.
        variable: the variable that sets it.
        flag: its flag; empty if it has none.
    """

    name: str
    value: str | None
    source: str
    variable: str
    flag: str = ""


def list_settings(settings: Settings, environ: Mapping[str, str]) -> list[ShownSetting]:
    """List all settings, and the variables of others that are set."""
    values = settings.model_dump(mode="json", exclude_none=True)
    rows = [
        ShownSetting(
            name=f"[[{TABLES[name]}]]" if name in TABLES else name,
            value=_write(name, values.get(name)),
            source=settings.origins.get(name, "default"),
            variable=f"SPANTAP_{name.upper()}",
            flag=FLAGS.get(name, ""),
        )
        for name in type(settings).model_fields
    ]
    if settings.file:
        file = ShownSetting(
            name="config",
            value=settings.file,
            source="variable" if settings.file == environ.get("SPANTAP_CONFIG") else "command line",
            variable="SPANTAP_CONFIG",
            flag="--config",
        )
        rows.insert(0, file)
    return [*rows, *_list_others(environ)]


def _list_others(environ: Mapping[str, str]) -> Iterator[ShownSetting]:
    for name in sorted(environ):
        if not (_OTHERS.fullmatch(name) and environ[name]):
            continue
        value = environ[name]
        if _SECRET.search(name):
            value = _HIDDEN
        elif _ADDRESS.search(name):
            value = _mask_address(value)
        elif name.upper() == _ATTRIBUTES:
            value = _ATTRIBUTE.sub(_mask_attribute, value)
        value = value.encode(errors="surrogateescape").decode(errors="replace")
        yield ShownSetting(name=name, value=value, source="variable", variable=name)


def _write(name: str, value: Any) -> str | None:
    if value is None or value in ([], {}):
        return None
    if name in _KEYS:
        return "none" if value == "none" else _HIDDEN
    if name == _PATTERNS:
        value = dict.fromkeys(value, _HIDDEN)
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False)


def _mask_attribute(found: re.Match[str]) -> str:
    """Mask the value of an attribute whose name says that it is a secret."""
    return f"{found[1]}={_HIDDEN}" if _SECRET.search(found[1]) else found[0]


def _mask_address(text: str) -> str:
    """Mask the user of a URL, and its query; both carry credentials. A scheme may be missing."""
    scheme, behind, rest = text.partition("://") if "://" in text else ("", "", text)
    user, at, place = rest.rpartition("@")
    if re.search(r"[?#]", user):  # a user or a query: nobody can say which
        return f"{scheme}{behind}{_HIDDEN}"
    place = re.sub(r"[?#].*", f"?{_HIDDEN}", place, flags=re.DOTALL)
    return f"{scheme}{behind}{_HIDDEN if at else ''}{at}{place}"
