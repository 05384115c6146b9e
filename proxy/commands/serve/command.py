"""``spantap serve``: gives the settings to a supervisor, and becomes it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from proxy.commands.serve.call_lines import start_call_lines
from proxy.interception.kept_authority import keep_authority, list_hosts, load_authority
from proxy.logging.logs import LogFormat, set_up_logging
from proxy.processes.scratch import settings_file
from proxy.settings.spans import hand_over
from proxy.settings.variable_names import describe_unknown_names
from proxy.signal_numbers import SHUTDOWN_SIGNALS

if TYPE_CHECKING:
    from proxy.settings.settings import Settings

_log = logging.getLogger("spantap")


def run_serve(settings: Settings, *, quiet: bool = False) -> NoReturn:
    """Become the supervisor, under the same process id.

    On a terminal it writes a line for each call, unless `quiet` is given or the log is in JSON.

    Reading and checking settings takes more memory than supervising, so another program replaces
    this one.

    Raises:
        ConfigurationError: there is no place for a temporary file, a variable about hidden content
            cannot be used, or interception has no authority.
    """
    handed = hand_over(settings, os.environ)
    warnings = [*describe_unknown_names(os.environ, type(settings).model_fields)]
    if settings.intercept_port:
        warnings += _prepare_authority(settings)
    if warnings:
        set_up_logging(settings.log_level, settings.log_format, "supervisor")
        for sentence in warnings:
            _log.warning("%s", sentence)
    file = settings_file(settings.store, handed)
    os.set_inheritable(file.fileno(), True)  # noqa: FBT003 - its only parameter
    if not quiet and settings.log_format is LogFormat.HUMAN and sys.stdout.isatty():
        start_call_lines(settings.store)
    sys.stdout.flush()
    # Block them until the supervisor can handle them: the mask survives the change of programs.
    signal.pthread_sigmask(signal.SIG_BLOCK, SHUTDOWN_SIGNALS)
    arguments = ["-P", "-m", "proxy.processes.supervisor", str(file.fileno())]
    os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - no shell is wanted


def _prepare_authority(settings: Settings) -> list[str]:
    """Make the authority of interception if there is none yet, and say what it cannot do."""
    from proxy.commands.ca import explain_limits  # noqa: PLC0415 - rare

    hosts = list_hosts(settings.intercept_hosts)
    authority = load_authority(settings.store, keep_authority(settings.store, hosts))
    return [
        f"the certificate authority of interception: {words}; `spantap ca renew` makes another"
        for words in explain_limits(authority, hosts)
    ]
