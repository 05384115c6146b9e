"""``proxy.processes.child``: a child is started, heard, and started again when it ends unasked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from proxy.interception.interception import Interception
from proxy.processes import child as child_module
from proxy.processes.child import Child, Role
from proxy.processes.intercept_orders import OpenIntercept
from proxy.processes.messages import Finish, Finished, Start
from proxy.processes.store_orders import CompactStore
from telemetry.metrics.instruments import EXCHANGES_OPEN, REQUESTS
from telemetry.metrics.snapshot import merge
from telemetry.store.rows import CompactStep

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    Running = Callable[[str], AbstractAsyncContextManager[tuple[Child, asyncio.Future[None]]]]

START = Start(settings=b"{}", number=1, frames_path="/x", cipher_key=b"k")

PYTHON = sys.executable

BEGINNING = """
import socket, sys, time
from proxy.processes.control import Control
from proxy.processes.messages import Counters, Finish, Finished, Ready
from telemetry.metrics.instruments import EXCHANGES_OPEN, REQUESTS
from telemetry.metrics.registry import MetricsRegistry
control = Control(socket.socket(fileno=int(sys.argv[4])))
start = control.receive()
registry = MetricsRegistry()
registry.add(REQUESTS, 5)
registry.set(EXCHANGES_OPEN, 7)
"""


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    """Runs a child that behaves as it is told, and ends it at the end."""
    script, program = tmp_path / "child.py", tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec {PYTHON} {script} "$@"\n')
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))

    @contextlib.asynccontextmanager
    async def run(behaviour: str) -> AsyncIterator[tuple[Child, asyncio.Future[None]]]:
        script.write_text(BEGINNING + textwrap.dedent(behaviour))
        child = Child(Role.WORKER, START, [])
        future = asyncio.ensure_future(child.run())
        try:
            yield child, future
        finally:
            child.expect_end()
            child.kill()
            await future

    return run


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_child_that_was_never_ready_is_not_started_again(running: Running) -> None:
    """It has said why it cannot; its status is told."""
    async with running("sys.exit(2)") as (child, future):
        await future
        assert (child.status, child.restarts, child.ready.is_set()) == (2, 0, False)


async def test_one_that_dies_before_it_was_ready_is_said(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """It could not say it itself."""
    behaviour = "import os\nos.kill(os.getpid(), 9)"
    async with running(behaviour) as (child, future):
        await future
        assert child.lost is None
    assert "the worker 1 process was ended by SIGKILL" in caplog.text


async def test_one_that_was_ready_is_started_again_at_once(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """A new process under the same name, and a line that says how the old one ended."""
    behaviour = "control.send(Ready(notes=((20, 'hello'),)))\ncontrol.receive()"
    async with running(behaviour) as (child, _):
        await until(child.ready.is_set)
        first = child.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: child.restarts == 1 and child.ready.is_set())
        assert child.pid != first
        assert child.notes == ((20, "hello"),)
    assert f"worker 1 process {first} was ended by SIGKILL; it is started again now" in caplog.text


async def test_a_socket_belongs_to_its_order(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if one is given while the process is being made: a port has the secret of its run."""
    behaviour = """
        from proxy.interception.interception import InterceptReport
        from proxy.processes.intercept_orders import InterceptNews, OpenIntercept
        control.send(Ready())
        hand = socket.socket(fileno=int(sys.argv[5]))
        while message := control.receive():
            if isinstance(message, OpenIntercept):
                _, [descriptor], _, _ = socket.recv_fds(hand, 1, 1)
                with socket.socket(fileno=descriptor) as sock:
                    port = sock.getsockname()[1]
                report = InterceptReport(opened={str(port): 1})
                control.send(InterceptNews(number=message.number, report=report))
    """
    interception = Interception(
        secret="s", ca_certificate=b"", ca_key=b"", hosts=frozenset(), label=""
    )
    news: dict[int, str] = {}
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        make_process = asyncio.create_subprocess_exec

        async def make_slowly(*words: str, **options: Any) -> Any:
            process = await make_process(*words, **options)
            child.order(OpenIntercept(number=1, interception=interception), listeners[1])
            return process

        async with running(behaviour) as (child, _):
            child.on_intercept = lambda it: news.update({it.number: next(iter(it.report.opened))})
            monkeypatch.setattr(asyncio, "create_subprocess_exec", make_slowly)
            child.order(OpenIntercept(number=0, interception=interception), listeners[0])
            await until(child.ready.is_set)
            child.order(OpenIntercept(number=2, interception=interception), listeners[2])
            await until(lambda: len(news) == 3)
        assert news == {number: str(sock.getsockname()[1]) for number, sock in enumerate(listeners)}


async def test_a_child_that_keeps_ending_is_waited_for_and_called_a_crash_loop(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """Each time longer, and loudly; the end does not wait for it."""
    behaviour = "control.send(Ready())\nsys.exit(3)"
    async with running(behaviour) as (child, future):
        await until(lambda: child.restarts >= 4)
        child.expect_end()
        async with asyncio.timeout(5):
            await future
    assert "ended with status 3; it is started again now" in caplog.text
    assert "ended with status 3; it is started again in 0.25 s" in caplog.text
    assert "crash loop: the worker 1 process" in caplog.text
    assert "3 times in a row; it is started again in 0.5 s" in caplog.text


async def test_what_a_child_counted_goes_on_in_the_next(running: Running) -> None:
    """Counters are added up; what was open is not."""
    behaviour = """
        control.send(Ready())
        control.send(Counters(snapshot=registry.snapshot()))
        control.receive()
    """
    async with running(behaviour) as (child, _):
        await until(lambda: len(child.numbers()) == 1)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        await until(lambda: len(child.numbers()) == 2)
        numbers = merge(child.numbers()).numbers
        assert [series.value for series in numbers[REQUESTS.name]] == [10]
        assert [series.value for series in numbers[EXCHANGES_OPEN.name]] == [7]
        [past] = child.past_numbers()
        assert EXCHANGES_OPEN.name not in past.numbers


async def test_orders_reach_a_successor_too(running: Running) -> None:
    """What was ordered while none was there is told first; its last word is kept."""
    behaviour = """
        control.send(Ready())
        if isinstance(control.receive(), Finish):
            control.send(Finished(lost=3))
    """
    async with running(behaviour) as (child, future):
        await until(child.ready.is_set)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        await until(lambda: not child.ready.is_set())
        child.order(Finish(flush_seconds=1))
        await until(lambda: child.finished == Finished(lost=3))
        child.expect_end()
        await future


async def test_one_that_talks_nonsense_is_ended(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And one that closes its channel and lives on, too."""
    monkeypatch.setattr(child_module, "HANG_SECONDS", 0.1)
    behaviour = "control.sock.sendall(b'\\0\\0\\0\\1\\xc1')\ntime.sleep(60)"
    async with running(behaviour) as (child, future):
        await future
        assert child.status == -signal.SIGKILL
    assert "sent something that is not a message" in caplog.text
    async with running("control.sock.close()\ntime.sleep(60)") as (
        child,
        future,
    ):
        await future
        assert child.status == -signal.SIGKILL


async def test_a_process_that_cannot_be_made_is_said(
    running: Running,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Rather than raised into nowhere."""
    async with running(""):
        pass
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    child = Child(Role.TELEMETRY, START, [])
    await child.run()
    assert "the telemetry 1 process cannot be started" in caplog.text


async def test_a_child_that_goes_silent_is_told_of_once_and_not_ended(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With what to do about it; and when it responds again."""
    monkeypatch.setattr(child_module, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(child_module, "_LOOK_SECONDS", 0.05)
    behaviour = """
        control.send(Ready())
        time.sleep(1)
        while True:
            control.send(Counters(snapshot=registry.snapshot()))
            time.sleep(0.01)
    """
    async with running(behaviour) as (child, _):
        await until(lambda: "responds again" in caplog.text)
        [silence, _] = [record.getMessage() for record in caplog.records]
        assert f"the worker 1 process {child.pid} has said nothing for 0.2 s" in silence
        assert f"kill -9 {child.pid}" in silence
        assert child.restarts == 0


async def test_what_is_asked_is_answered_one_after_the_other(running: Running) -> None:
    """By the present process; where it ends, or has not begun, there is no answer."""
    behaviour = """
    from telemetry.store.rows import CompactStep
    time.sleep(0.2)
    control.send(Ready())
    for size_bytes in range(2):
        control.receive()
        time.sleep(0.1)
        control.send(CompactStep(is_folded=True, free_bytes=0, size_bytes=size_bytes))
    control.receive()
    """
    async with running(behaviour) as (child, _):
        order = CompactStore(gives_back=True)
        assert await child.carry_out(order) is None
        await until(child.ready.is_set)
        async with asyncio.timeout(20):
            answers = await asyncio.gather(*(child.carry_out(order) for _ in range(3)))
    assert answers == [
        *(CompactStep(is_folded=True, free_bytes=0, size_bytes=number) for number in range(2)),
        None,
    ]
