"""What all tests share.

Property tests are not timed, for the machines that run them are shared. Signals are as a terminal
gives them: whoever runs the tests by ``nohup`` or in the background hands down that some are
ignored, which ``spantap serve`` would rightly follow.
"""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_configure() -> None:
    """Hear the signals that this process was told to ignore."""
    for number, action in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, None)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, action or signal.SIG_DFL)
