"""``spantap run``: runs a command whose calls go through a proxy, and shows their table at the end.

It prints to standard error, only before the command starts and after it has ended: in between the
standard streams are the command's.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from proxy.escape import escape_line
from proxy.launches.bases import Bases
from proxy.launches.command import CannotStart, check_program, run_command
from proxy.launches.environment import fit_environment, look_around
from proxy.launches.joining import join_proxy
from proxy.launches.tools import Start, find_tool
from proxy.processes.launch_channel import digest_privacy
from proxy.settings.spans import hand_over, hides_content
from proxy.settings.variable_names import describe_unknown_names
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.launches.environment import Surroundings
    from proxy.launches.joining import Membership
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
    """A command that is about to be started, and sentences about it for the user."""

    command: tuple[str, ...]
    environ: dict[str, str]
    sentences: tuple[str, ...]


def run_run(settings: Settings, options: RunOptions) -> int:
    """Run a command, and return its exit status.

    Raises:
        ConfigurationError: the proxy cannot be started, or a running one does not suit.
    """
    began_ns = time.time_ns()
    launch = (options.name.strip() or Path(options.command[0]).name, secrets.token_hex(4))
    try:
        check_program(options.command[0], os.environ.get("PATH"))
    except CannotStart as error:
        return _cannot_start(error)
    membership, prepared = _prepare(settings, options, launch)
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
        _end(settings.store, membership, launch, began_ns, quiet=quiet)
    return status


def _prepare(
    settings: Settings, options: RunOptions, launch: tuple[str, str]
) -> tuple[Membership, _Prepared]:
    """Join a proxy, and prepare the command for it.

    Raises:
        ConfigurationError: there is no proxy, or a running one does not suit.
    """
    environ, command = dict(os.environ), options.command
    start = Start(command=command, environ=environ, folder=settings.store.parent)
    tool = find_tool(command)
    seen = {} if options.ignores_urls else environ
    own = tool.find_urls(start) if options.flags and not options.ignores_urls else {}
    around = look_around(seen, (settings.host, settings.port), own)
    membership = join_proxy(settings.store, _hand_over(settings), around.wanted)
    _check_suits(settings, membership, options)
    bases = Bases.of(membership.joined, *launch)
    sentences = [
        *describe_unknown_names(environ, type(settings).model_fields),
        *_describe_proxy(membership),
        *_describe_urls(around, bases),
    ]
    environ |= fit_environment(environ, around, bases, membership.joined)
    if options.flags and around.unusable.keys().isdisjoint(own):
        start = msgspec.structs.replace(start, environ=environ, set_urls=around.set_urls)
        changes = tool.adapt(start, bases)
        command = (command[0], *changes.arguments, *command[1:])
        for name, text in changes.variables.items():
            _set(environ, name, os.environ.get(name) if text is None else text)
        if changes.summary:
            words = f"for {Path(command[0]).name}: {changes.summary} (not with --no-flags)"
            sentences.append(words)
    return membership, _Prepared(command=command, environ=environ, sentences=tuple(sentences))


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
    for name, url in around.set_urls.items():
        if name not in around.implied and bases.is_elsewhere(name):
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
    *,
    quiet: bool,
) -> None:
    """Leave the proxy, wait for the last calls, and show all calls."""
    from proxy.commands.launch_summary import print_summary, wait_for_calls  # noqa: PLC0415

    own = membership.own
    if stays := membership.leave():
        wait_for_calls(store, launch)
    if not quiet:
        print_summary(store, launch, None if own is None or stays else began_ns, sys.stderr)
    if stays:
        return
    membership.wait_for_end()
    if own is not None and not quiet and (count := own.count_warnings()):
        lines = "line" if count == 1 else "lines"
        _tell(f"the proxy has warned of something: {count} {lines} in {own.log}")
