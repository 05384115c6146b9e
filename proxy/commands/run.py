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
from typing import TYPE_CHECKING

from proxy.commands.launch_plan import RunOptions
from proxy.escape import escape_line
from proxy.launches.command import CannotStart, check_program, run_command
from proxy.launches.resolving import resolve

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.commands.launch_plan import Prepared
    from proxy.commands.no_call import NoCall
    from proxy.launches.joining import Membership
    from proxy.launches.resolving import Resolved
    from proxy.settings.settings import Settings

__all__ = ("RunOptions", "run_run")


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
) -> tuple[Membership, Prepared]:
    if options.intercepts:
        from proxy.commands.run_intercepted import prepare_intercepted  # noqa: PLC0415

        return prepare_intercepted(settings, options, launch, resolved)
    from proxy.commands.run_by_urls import prepare_by_urls  # noqa: PLC0415

    return prepare_by_urls(settings, options, launch, resolved)


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
    ended = membership.intercepted
    if no_call is not None:
        if not membership.has_answered:
            pid = membership.joined.pid
            _tell(
                f"the proxy (process {pid}) was gone or stood still at the end: calls may be lost"
            )
        own_ns = None if own is None or stays else began_ns
        if ended is not None:
            no_call = no_call.after(ended.report)
        print_summary(store, launch, own_ns, sys.stderr, no_call)
        if ended is not None:
            from proxy.commands.intercept_lines import describe_interception  # noqa: PLC0415

            _tell(*describe_interception(ended, membership.joined.pid))
    if stays:
        return
    membership.wait_for_end()
    if own is not None and no_call is not None and (count := own.count_warnings()):
        lines = "line" if count == 1 else "lines"
        _tell(f"the proxy has warned of something: {count} {lines} in {own.log}")
