"""Reads what is set: by flags, by variables, in the TOML file; and remembers where.

Flags win over variables, and these over the file. Nothing is checked here but the form.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TABLES = {"upstreams": "upstream", "prices": "price"}
"""Settings that are tables with another name in a file."""

FLAGS = {
    "host": "--host",
    "port": "--port",
    "admin_host": "--admin-host",
    "admin_port": "--admin-port",
    "page": "--no-page",
    "page_port": "--page-port",
    "intercept_port": "--intercept-port",
    "upstream": "--upstream",
    "workers": "--workers",
    "store": "--store",
}
"""The flag of each setting that has one."""

_JSON_SETTINGS = {"upstreams", "headers", "redact_patterns", "prices"}
"""Tables: a variable holds them as JSON. It holds every other setting as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What each source says, by the setting's name; never shown, because some values are keys."""

    flags: Mapping[str, Any]
    variables: Mapping[str, Any]
    file: Mapping[str, Any]
    path: str
    """The file's; empty if there is none."""

    def values(self) -> dict[str, Any]:
        """Return the value of each setting that is set, from the source that wins."""
        return {**self.file, **self.variables, **self.flags}

    def origins(self) -> dict[str, str]:
        """Return where the value of each setting that is set comes from, in words for people."""
        return {
            **dict.fromkeys(self.file, "file"),
            **dict.fromkeys(self.variables, "variable"),
            # A command that leaves a setting out gives it without a flag.
            **{name: "command line" if name in FLAGS else "not read" for name in self.flags},
        }


def read_sources(
    names: Collection[str],
    flags: Mapping[str, Any],
    config: str | None,
    environ: Mapping[str, str],
) -> Sources:
    """Read all sources.

    Args:
        names: the settings.
        flags: values of command line flags, by setting name.
        config: path of the TOML file; if ``None``, that in ``SPANTAP_CONFIG``.
        environ: the variables.

    Raises:
        ConfigurationError: a table in a variable is not JSON, or the file cannot be read.
    """
    path = config or environ.get("SPANTAP_CONFIG")
    return Sources(
        flags=flags,
        variables=_read_environment(environ, names),
        file=_read_file(Path(path)) if path else {},
        path=path or "",
    )


def _read_environment(environ: Mapping[str, str], names: Collection[str]) -> dict[str, Any]:
    """Read the variables; upper and lower case of their names are the same.

    Raises:
        ConfigurationError: a table is not JSON.
    """
    said = {name.lower(): text for name, text in environ.items()}
    values: dict[str, Any] = {}
    for name in names:
        text = said.get(f"spantap_{name}")
        value = _read_json(name, text) if text is not None and name in _JSON_SETTINGS else text
        if value is not None:  # JSON's ``null`` counts as unset too
            values[name] = value
    return values


def _read_json(name: str, text: str) -> Any:
    try:
        return from_json(text.encode(errors="surrogateescape"))
    except ValueError as error:
        raise ConfigurationError(f"environment: SPANTAP_{name.upper()} must be JSON") from error


def _read_file(path: Path) -> dict[str, Any]:
    values = _read_toml(path)
    for name in TABLES.keys() & values.keys():
        raise ConfigurationError(f"unknown setting {name!r}: the tables are [[{TABLES[name]}]]")
    if isinstance(values.get("upstream"), list):
        values["upstreams"] = values.pop("upstream")
    if "price" in values:
        values["prices"] = values.pop("price")
    return values


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError(f"cannot read the configuration file {path}: {reason}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the configuration file {path} is not TOML: {error}") from error
