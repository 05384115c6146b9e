"""``spantap serve``: hands the settings to a supervisor, and becomes it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from proxy.commands.call_lines import start_call_lines
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

    On a terminal a line is written for each call, unless it is to be `quiet`, or the log is one for
    programs.

    Reading and checking settings takes more memory than all supervising, so this program is
    replaced rather than continued.

    Raises:
        ConfigurationError: there is no place for a temporary file, or a variable about what is to
            be hidden cannot be followed.
    """
    handed = hand_over(settings, os.environ)
    if unknown := list(describe_unknown_names(os.environ, type(settings).model_fields)):
        set_up_logging(settings.log_level, settings.log_format, "supervisor")
        for sentence in unknown:
            _log.warning("%s", sentence)
    file = settings_file(settings.store, handed)
    os.set_inheritable(file.fileno(), True)  # noqa: FBT003 - its only parameter
    if not quiet and settings.log_format is LogFormat.HUMAN and sys.stdout.isatty():
        start_call_lines(settings.store)
    sys.stdout.flush()
    # Nothing obeys them until the supervisor can: the mask outlives the change of programs.
    signal.pthread_sigmask(signal.SIG_BLOCK, SHUTDOWN_SIGNALS)
    arguments = ["-P", "-m", "proxy.processes.supervisor", str(file.fileno())]
    os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - no shell is wanted
