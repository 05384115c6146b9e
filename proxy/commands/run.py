"""``spantap run``: runs a command whose calls go through a proxy, and shows their table at the end.

It prints to standard error, only before the command starts and after it has ended: in between the
standard streams are the command's.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import sys
import time
from typing import TYPE_CHECKING

import msgspec

from proxy.commands.no_call import NoCall
from proxy.escape import escape_line
from proxy.launches.bases import Bases
from proxy.launches.command import CannotStart, check_program, run_command
from proxy.launches.environment import fit_environment, look_around
from proxy.launches.joining import join_proxy
from proxy.launches.resolving import resolve
from proxy.launches.tools import Changes, Start, find_tool
from proxy.launches.variables import keep_fixed, read_variables
from proxy.prefixes import TO_PREFIX
from proxy.processes.launch_channel import digest_privacy
from proxy.settings.spans import hand_over, hides_content
from proxy.settings.variable_names import describe_unknown_names
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from proxy.launches.environment import Surroundings
    from proxy.launches.joining import Membership
    from proxy.launches.resolving import Resolved
    from proxy.settings.settings import Settings


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``spantap run``.

    Attributes:
        name: the name of the launch; empty for the name of the program.
        quiet: only errors are printed.
        flags: known tools get the flags and variables that they need.
        page: the page is opened before the command starts.
        ignores_urls: ``--upstream`` is given, so base URLs that are set already do not count.
    """

    command: tuple[str, ...]
    name: str = ""
    quiet: bool = False
    flags: bool = True
    page: bool = False
    ignores_urls: bool = False


class _Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A command that is about to be started, and sentences about it for the user.

    Attributes:
        no_call: what to say if it makes no call.
    """

    command: tuple[str, ...]
    environ: dict[str, str]
    sentences: tuple[str, ...]
    no_call: NoCall


def run_run(settings: Settings, options: RunOptions) -> int:
    """Run a command, and return its exit status.

    Raises:
        ConfigurationError: the proxy cannot be started, or a running one does not suit.
    """
    began_ns = time.time_ns()
    try:
        check_program(options.command[0], os.environ.get("PATH"))
    except CannotStart as error:
        return _cannot_start(error)
    resolved = resolve(options.command, os.environ)
    launch = (options.name.strip() or resolved.name, secrets.token_hex(4))
    membership, prepared = _prepare(settings, options, launch, resolved)
    quiet = options.quiet
    if not quiet:
        _tell(*prepared.sentences)
    if options.page:
        from proxy.commands.page import open_page_for_launch  # noqa: PLC0415 - rarely wanted

        _tell(*open_page_for_launch(settings))
    try:
        status = run_command(prepared.command, prepared.environ)
    except CannotStart as error:
        status, quiet = _cannot_start(error), True
    with contextlib.suppress(KeyboardInterrupt):  # the user need not wait for the table
        no_call = None if quiet else prepared.no_call
        _end(settings.store, membership, launch, began_ns, no_call)
    return status


def _prepare(
    settings: Settings, options: RunOptions, launch: tuple[str, str], resolved: Resolved
) -> tuple[Membership, _Prepared]:
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
    membership = join_proxy(settings.store, _hand_over(settings), around.wanted)
    _check_suits(settings, membership, options)
    bases = Bases.of(membership.joined, *launch)
    sentences = [
        *describe_unknown_names(environ, type(settings).model_fields),
        *_describe_proxy(membership),
        *_describe_urls(around, bases),
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
        changes = tool.adapt(start, bases)
        for name, text in changes.variables.items():
            _set(environ, name, os.environ.get(name) if text is None else text)
        if changes.arguments and resolved.at is None:
            flags = shlex.join(changes.arguments)
            sentences.append(
                f"{resolved.name} needs {flags}, which cannot be put into {resolved.through}: "
                f"start {resolved.name} itself"
            )
            changes = Changes()
        elif changes.summary:
            sentences.append(f"for {_describe(resolved)}: {changes.summary} (not with --no-flags)")
    at = resolved.at or 1
    return membership, _Prepared(
        command=(*command[:at], *changes.arguments, *command[at:]),
        environ=environ,
        sentences=tuple(sentences),
        no_call=NoCall.of(resolved, fitted, changes.summary),
    )


def _describe(resolved: Resolved) -> str:
    """Name the program, and what starts it."""
    if not resolved.through:
        return resolved.name
    return f"{resolved.name}, which {resolved.through} starts"


def _hand_over(settings: Settings) -> bytes:
    """Encode the settings of a proxy that we start: on free ports, only for this machine."""
    ours = {"host": "127.0.0.1", "port": 0, "admin_host": "127.0.0.1", "admin_port": 0}
    ours |= {"page": False}  # it would end with the command, before the user looks at the calls
    ours |= {"tls_cert": None, "tls_key": None}
    return hand_over(settings.replaced("spantap run", ours), os.environ)


def _check_suits(settings: Settings, membership: Membership, options: RunOptions) -> None:
    """Check that a running proxy does what the options and settings of this launch say.

    Raises:
        ConfigurationError: it does not.
    """
    if membership.own is not None:
        return
    joined = membership.joined
    where = f"a proxy (process {joined.pid}) runs already on {settings.store}"
    mend = "end it, or name another store with --store"
    if options.ignores_urls:
        raise ConfigurationError(f"{where}, so its upstreams hold and not --upstream: {mend}")
    is_alike = joined.privacy == digest_privacy(_hand_over(settings), os.environ)
    if hides_content(settings, os.environ) and not is_alike:
        raise ConfigurationError(
            f"{where}, and it does not hide from spans what must be hidden here "
            f"(SPANTAP_CONTENT, SPANTAP_REDACT, OPENINFERENCE_HIDE_*): {mend}"
        )


def _set(environ: dict[str, str], name: str, text: str | None) -> None:
    if text is None:
        environ.pop(name, None)
    else:
        environ[name] = text


def _describe_proxy(membership: Membership) -> Sequence[str]:
    if membership.own is not None:
        return ()
    pid = membership.joined.pid
    return (f"through the proxy that runs already (process {pid}), with its settings",)


def _describe_urls(around: Surroundings, bases: Bases) -> Iterator[str]:
    names: dict[str, list[str]] = {}
    variables = {row.name for row in read_variables()}
    own = {name: url for name, url in around.tool_urls.items() if name in variables}
    for name, url in (around.set_urls | own).items():
        is_ours = TO_PREFIX in url  # of a launch around this one
        if name not in around.implied and bases.is_elsewhere(name) and not is_ours:
            names.setdefault(url, []).append(name)
    for url, them in names.items():
        yield f"calls of {' and '.join(them)} go on to {url}"
    for name, why in around.unusable.items():
        if name not in around.implied:
            yield f"{name} is left as it is, and its calls are not recorded: its base URL {why}"


def _cannot_start(error: CannotStart) -> int:
    _tell(str(error))
    return error.status


def _tell(*sentences: str) -> None:
    with contextlib.suppress(OSError):
        for sentence in sentences:
            print(f"spantap: {escape_line(sentence)}", file=sys.stderr)  # noqa: T201


def _end(
    store: Path,
    membership: Membership,
    launch: tuple[str, str],
    began_ns: int,
    no_call: NoCall | None,
) -> None:
    """Leave the proxy, wait for the last calls, and show all calls.

    `no_call` is what to say if there are none; ``None`` for a quiet run, which says nothing.
    """
    from proxy.commands.launch_summary import print_summary, wait_for_calls  # noqa: PLC0415

    own = membership.own
    if stays := membership.leave():
        wait_for_calls(store, launch)
    if no_call is not None:
        own_ns = None if own is None or stays else began_ns
        print_summary(store, launch, own_ns, sys.stderr, no_call)
    if stays:
        return
    membership.wait_for_end()
    if own is not None and no_call is not None and (count := own.count_warnings()):
        lines = "line" if count == 1 else "lines"
        _tell(f"the proxy has warned of something: {count} {lines} in {own.log}")
