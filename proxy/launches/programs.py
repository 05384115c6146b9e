"""The programs that are known: which variables they read, and what to do if no call comes.

The rows are data, in ``programs.json`` beside this module. :mod:`proxy.launches.tools` has
functions for those that need more than variables; ``docs/run.md`` has the table for people.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from codec.text.jsontext import decode_json_object

if TYPE_CHECKING:
    from collections.abc import Mapping


class Default(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base URL of a program that nobody has set, for a variable that it reads.

    Attributes:
        needs: variables that must all be set, because otherwise it calls another place.
        unless: variables of which none may be set, for the same reason.
        unless_file: a file below the home that must not be there, such as that of a login.
        file: a file of JSON below the home, whose `member` (``a.b``) may hold the user's own.
    """

    variable: str
    url: str
    needs: tuple[str, ...]
    unless: tuple[str, ...] = ()
    unless_file: str = ""
    file: str = ""
    member: str = ""

    def find(self, environ: Mapping[str, str]) -> str | None:
        """Find where its calls go; ``None`` if that is not known, or the variable is set."""
        home = Path(environ.get("HOME") or Path.home())
        if environ.get(self.variable, "").strip() or not all(map(environ.get, self.needs)):
            return None
        if any(map(environ.get, self.unless)):
            return None
        if self.unless_file and (home / self.unless_file).exists():
            return None
        own: Any = read_json(home / self.file) if self.file else None
        for member in self.member.split("."):
            own = own.get(member) if isinstance(own, dict) else None
        return own if isinstance(own, str) and own else self.url


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program.

    Attributes:
        name: the name of its command.
        title: its name for people.
        sets: what is set for it besides the variables of every launch, in Markdown.
        advice: what to try if none of its calls came.
        source: where that was read, or the program itself.
        date: the day of that.
        packages: packages and modules that have it.
        reads: the variables that it reads a base URL from.
        hosts: the hosts of its calls, seen with ``--intercept``.
        client_certificate: the variable that names a certificate that it shows to them.
        defaults: its own base URLs.
        page: the name of its quick start.
        changes: what it sends otherwise to a base URL that is not its provider's.
        mend: the variable that prevents this.
        tried: the version with which the tests do a task; empty if it was only read about.
    """

    name: str
    title: str
    sets: str
    advice: str
    source: str
    date: str
    packages: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    client_certificate: str = ""
    defaults: tuple[Default, ...] = ()
    page: str = ""
    changes: str = ""
    mend: str = ""
    tried: str = ""

    def find_urls(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Find the base URLs that it has by itself, by variables that are not set."""
        found = {row.variable: row.find(environ) for row in self.defaults}
        return {variable: url for variable, url in found.items() if url is not None}


@cache
def read_programs() -> Mapping[str, Program]:
    """Read the rows, by name, in the order of the file."""
    data = Path(__file__).with_name("programs.json").read_bytes()
    rows = msgspec.json.decode(data, type=tuple[Program, ...])
    return {row.name: row for row in rows}


@cache
def read_packages() -> Mapping[str, str]:
    """Read which package has which program."""
    return {package: row.name for row in read_programs().values() for package in row.packages}


def read_json(path: Path) -> dict[str, Any]:
    """Read an object from a file of JSON; an empty one if there is none."""
    try:
        return decode_json_object(path.read_bytes())
    except (OSError, ValueError):
        return {}
