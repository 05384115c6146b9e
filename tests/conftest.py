"""What all tests share.

Property tests are not timed, for the machines that run them are shared, and have the same examples
in every run, which fails for what was changed and not by chance. These are few, for they find no
more by being many: new ones are looked for by ``--hypothesis-profile=random``, which is
``make properties``.

Signals are as a terminal gives them: whoever runs the tests by ``nohup`` or in the background hands
down that some are ignored, which ``spantap serve`` would rightly follow. No thread outlives the
test that started it.
"""

from __future__ import annotations

import gc
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "seeded", settings.get_profile("random"), derandomize=True, max_examples=40
)
settings.load_profile("seeded")


def pytest_configure() -> None:
    """Hear the signals that this process was told to ignore."""
    for number, action in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, None)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, action or signal.SIG_DFL)


def pytest_collection_finish() -> None:
    """Spare what is loaded by now from each search for cycles: a million objects that all stay."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """A thread that goes on, perhaps for ever, slows and confuses every later test."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive(), f"{thread} was left running"
