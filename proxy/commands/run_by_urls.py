"""Prepares a command whose calls come by base URLs: variables, and flags for known programs."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import msgspec

from proxy.commands.launch_plan import (
    Prepared,
    check_suits,
    describe_proxy,
    describe_urls,
    hand_over_for_run,
    list_urls,
)
from proxy.commands.no_call import NoCall
from proxy.launches.bases import Bases
from proxy.launches.environment import fit_environment, look_around
from proxy.launches.joining import join_proxy
from proxy.launches.tools import Changes, Start, Tool, find_tool
from proxy.launches.variables import keep_fixed
from proxy.processes.launch_channel import Join
from proxy.settings.variable_names import describe_unknown_names

if TYPE_CHECKING:
    from proxy.commands.launch_plan import RunOptions
    from proxy.launches.joining import Membership
    from proxy.launches.resolving import Resolved
    from proxy.settings.settings import Settings


def prepare_by_urls(
    settings: Settings, options: RunOptions, launch: tuple[str, str], resolved: Resolved
) -> tuple[Membership, Prepared]:
    """Join a proxy, and prepare the command for it.

    Raises:
        ConfigurationError: there is no proxy, or a running one does not suit.
    """
    environ, command = dict(os.environ), options.command
    start = Start(
        arguments=resolved.arguments,
        environ=environ | resolved.assigned,
        folder=settings.store.parent,
    )
    tool, program = find_tool(resolved.name), resolved.program
    own = program.find_urls(start.environ) if program is not None and options.flags else {}
    seen, known = environ, environ
    if options.ignores_urls:
        seen, known, own = keep_fixed(environ), environ | own, {}
    elif options.flags:
        own |= tool.find_urls(start)
    around = look_around(seen, (settings.host, settings.port), own)
    membership = join_proxy(settings.store, hand_over_for_run(settings), Join(urls=around.wanted))
    check_suits(settings, membership, options)
    bases = Bases.of(membership.joined, *launch)
    sentences = [
        *describe_unknown_names(environ, type(settings).model_fields),
        *describe_proxy(membership),
        *describe_urls(around, bases, list_urls(around), around.unusable),
    ]
    fitted = fit_environment(known, around, bases, membership.joined)
    environ |= fitted
    changes = Changes()
    if options.flags and around.unusable.keys().isdisjoint(own):
        start = msgspec.structs.replace(
            start,
            environ=environ | resolved.assigned,
            set_urls=around.set_urls | around.tool_urls,
        )
        changes, sentence = _adapt(tool, start, bases, resolved)
        sentences += [sentence] if sentence else []
        for name, text in changes.variables.items():
            _set(environ, name, os.environ.get(name) if text is None else text)
    at = resolved.at or 1
    return membership, Prepared(
        command=(*command[:at], *changes.arguments, *command[at:]),
        environ=environ,
        sentences=tuple(sentences),
        no_call=NoCall.of(resolved, fitted, changes.summary),
    )


def _adapt(tool: Tool, start: Start, bases: Bases, resolved: Resolved) -> tuple[Changes, str]:
    """Find what to change for a program, and what to say of it."""
    changes = tool.adapt(start, bases)
    if changes.arguments and resolved.at is None:
        flags = shlex.join(changes.arguments)
        sentence = (
            f"{resolved.name} needs {flags}, which cannot be put into {resolved.through}: "
            f"start {resolved.name} itself"
        )
        return Changes(variables=changes.variables), sentence
    if not changes.summary:
        return changes, ""
    return changes, f"for {_describe(resolved)}: {changes.summary} (not with --no-flags)"


def _describe(resolved: Resolved) -> str:
    """Name the program, and what starts it."""
    if not resolved.through:
        return resolved.name
    return f"{resolved.name}, which {resolved.through} starts"


def _set(environ: dict[str, str], name: str, text: str | None) -> None:
    if text is None:
        environ.pop(name, None)
    else:
        environ[name] = text
