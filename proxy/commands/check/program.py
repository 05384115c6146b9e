"""``spantap check -- COMMAND``: what is known of a program, before ``spantap run`` starts it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

from proxy.commands.check.findings import bad, good, note, print_findings
from proxy.launches.command import CannotStart, check_program
from proxy.launches.resolving import resolve
from proxy.launches.tools import TOOLS
from proxy.launches.variables import find_set_urls, read_variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from proxy.commands.check.findings import Finding
    from proxy.launches.programs import Program


def check_command(
    command: Sequence[str], *, environ: Mapping[str, str] = os.environ, out: TextIO | None = None
) -> int:
    """Say what is known of a command's program; return the exit status. Nothing is started."""
    return 1 if print_findings(_findings(command, environ), out or sys.stdout) else 0


def _findings(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        check_program(command[0], environ.get("PATH"))
    except CannotStart as error:
        yield bad("program", str(error), "install it, or write its path")
    resolved = resolve(command, environ)
    program, environ = resolved.program, {**environ, **resolved.assigned}
    if program is None:
        words = f"{resolved.name} is not in the table; its calls come if it reads one of the "
        mend = "`spantap help run` lists them; a base URL in its own settings must be changed there"
        yield note("program", f"{words}variables that are set", mend)
        return
    how = f", which {resolved.through} starts" if resolved.through else ""
    tried = f"the tests run version {program.tried}" if program.tried else "it was only read about"
    yield good("program", f"{resolved.name} is {program.title}{how}; {tried} ({program.date})")
    if program.reads or program.name not in TOOLS:
        yield _judge_variables(program, environ)
    yield good("run", f"`spantap run` sets {program.sets.replace('`', '')}")
    if program.hosts:
        words = f"`spantap run --intercept` records its calls to {', '.join(program.hosts)}"
        yield good("intercept", f"{words}, which it makes as without spantap")
    if program.changes:
        yield note("base URL", program.changes, f"`spantap run` sets {program.mend}")
    if resolved.at is None:
        words = f"flags cannot be put into {resolved.through}"
        yield note("flags", words, f"start {resolved.name} itself if it needs one")


def _judge_variables(program: Program, environ: Mapping[str, str]) -> Finding:
    """Say by which of the variables that it reads its calls would come."""
    if not program.reads:
        return note("variables", "it reads its base URL from no variable", program.advice)
    rows = {row.name: row for row in read_variables()}
    said = {name: url for name, url in find_set_urls(environ).items() if name in program.reads}
    signed = [name for name in said if rows[name].is_signed(environ)]
    given = [
        name
        for name in program.reads
        if rows[name].path is not None or rows[name].url is not None or name in said
    ]
    given = [name for name in (*given, *program.find_urls(environ)) if name not in signed]
    if given:
        return good("variables", f"it reads {', '.join(dict.fromkeys(given))}")
    return note("variables", f"none is set of {', '.join(program.reads)}", program.advice)
