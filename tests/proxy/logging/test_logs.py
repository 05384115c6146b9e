"""``proxy.logging``: what reaches standard error, and in what shape."""

from __future__ import annotations

import logging
import os
import re
import select
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json
from proxy.clock import SystemClock
from proxy.logging.lines import MAX_LINE_BYTES, format_for_people, format_for_programs
from proxy.logging.logs import MAX_LINES, LogFormat, limit_lines, set_up_logging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CANARY = "c4n4ry"
HOSTILE = f"a\r\nb\x1b]0;title\x07\x9b31m\u202e\u2028{chr(0xD800)}\t\x00"
SHAPES = [format_for_people, format_for_programs]


def record(
    message: object, *args: object, name: str = "spantap.test", error: BaseException | None = None
) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord(name, logging.ERROR, "/x/pack/mod.py", 12, message, args, info)


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """The error with a traceback."""
    try:
        raise error from cause  # noqa: TRY301 - with a traceback
    except BaseException as caught:  # noqa: BLE001 - whatever is given
        return caught


def test_a_line_for_people_names_time_level_process_logger_and_message() -> None:
    """In this order; an only process has no name."""
    line = format_for_people(record("%d of %s", 3, "four"), "worker 1", 0)
    stamp, rest = line[:23], line[24:]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", stamp)
    assert rest == "ERROR   [worker 1] spantap.test: 3 of four"
    assert format_for_people(record("x"), "", 0)[24:] == "ERROR   spantap.test: x"


def test_a_line_for_programs_is_one_json_object() -> None:
    """With the time in UTC, and no member for an exception where there is none."""
    made = record("%d of %s", 3, "four")
    made.created, made.msecs = 1_700_000_000.25, 250.0
    assert decode_json(format_for_programs(made, "telemetry", 0)) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "ERROR",
        "logger": "spantap.test",
        "process": "telemetry",
        "pid": os.getpid(),
        "message": "3 of four",
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_in_a_message_breaks_its_line(shape: Any) -> None:
    """Line ends, escape sequences, characters that turn the writing, half a surrogate pair."""
    line = shape(record("%s", HOSTILE), "", 0)
    line.encode()
    assert line.isprintable()
    assert "\\u202e" in line


@pytest.mark.parametrize("shape", SHAPES)
def test_an_exception_is_its_type_and_place_without_its_text(shape: Any) -> None:
    """So are those it came from; a frame that loops ends the chain."""
    error = raised(ValueError(CANARY), raised(OSError(28, CANARY)))
    line = shape(record("it failed", error=error), "", 0)
    assert CANARY not in line
    place = r"at logging/test_logs\.py:\d+"
    assert re.search(f"ValueError {place}, from OSError ENOSPC {place}", line)
    error.__cause__ = error
    assert shape(record("it failed", error=error), "", 0).count("ValueError") == 3


def test_an_exception_in_the_handling_of_another_names_both_unless_told_not_to() -> None:
    """As Python's own traceback does."""
    error = ValueError()
    error.__context__ = KeyError()
    assert format_for_people(record("x", error=error), "", 0).endswith(
        "x (ValueError, from KeyError)"
    )
    error.__suppress_context__ = True
    assert format_for_people(record("x", error=error), "", 0).endswith("x (ValueError)")


def test_the_innermost_places_of_a_deep_traceback_are_named() -> None:
    """A few of them."""

    def fall(depth: int) -> None:
        if depth == 0:
            raise LookupError(CANARY)
        fall(depth - 1)

    with pytest.raises(LookupError) as caught:
        fall(40)
    line = format_for_people(record("x", error=caught.value), "", 0)
    assert line.count("logging/test_logs.py") == 5
    assert f":{fall.__code__.co_firstlineno + 2})" in line


@pytest.mark.parametrize(
    ("name", "message", "args", "told"),
    [
        ("asyncio", f"Task exception was never retrieved\nfuture: <{CANARY}>", (), "retrieved"),
        ("asyncio", f"Exception in callback f('{CANARY}')\nhandle: x", (), "callback f"),
        ("aiohttp.server", "Error handling request from %s", (CANARY,), "request from ..."),
        ("urllib3.connectionpool", f"Failed for {CANARY}", (), "from pack/mod.py:12"),
        ("asyncio", ValueError(CANARY), (), ""),
    ],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_of_other_peoples_messages_only_fixed_text_is_told(
    shape: Any, name: str, message: object, args: tuple[object, ...], told: str
) -> None:
    """A failed task: asyncio puts its representation into its message, exception and all."""
    line = shape(record(message, *args, name=name), "", 0)
    assert told in line
    if not isinstance(message, ValueError):
        assert CANARY not in line


def test_arguments_that_do_not_fit_leave_the_message_as_it_is() -> None:
    """Whoever logs is not to fail by it."""
    assert format_for_people(record("%d", "x"), "", 0).endswith(": %d")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("text", ["\U0001f600" * 5000, '"\\' * 5000, "\x00" * 5000])
@pytest.mark.parametrize("letter", ["E", "\u4e2d", "\U00020000"])
def test_a_line_has_a_largest_size(shape: Any, text: str, letter: str) -> None:
    """Whatever takes most bytes in it: message, exception, or logger."""
    error = raised(type(letter * 5000, (Exception,), {})())
    name = "spantap." + letter * 5000
    line = shape(record("%s", text, error=error, name=name), "worker 64", 1_234_567)
    assert "…" in line
    assert len(f"{line}\n".encode()) <= MAX_LINE_BYTES
    assert "(and 1,234,567 more such lines, not shown)" in line


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Reads the lines that this process logs; logging and hooks are as before afterwards."""
    root, own = logging.getLogger(), logging.getLogger("spantap")
    levels, handlers = (root.level, own.level), list(root.handlers)
    for module, name in (
        (sys, "excepthook"),
        (sys, "unraisablehook"),
        ("threading", "excepthook"),
        ("warnings", "showwarning"),
    ):
        place = sys.modules[module] if isinstance(module, str) else module
        monkeypatch.setattr(place, name, getattr(place, name))
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as source, os.fdopen(writer, "w") as sink:
        # pytest puts its own into `sys` when the test begins.
        monkeypatch.setattr("proxy.logging.logs.sys", SimpleNamespace(stderr=sink))

        def read() -> list[str]:
            text = b""
            while select.select([source], [], [], 0)[0] and (data := source.read(1 << 16)):
                text += data
            return text.decode().splitlines()

        yield read
        root.handlers = handlers
        root.setLevel(levels[0])
        own.setLevel(levels[1])


def test_levels_hold_for_us_and_others_speak_from_warnings_on(
    said: Callable[[], list[str]],
) -> None:
    """A higher level of ours holds for others too, and setting up again does not double lines."""
    set_up_logging("DEBUG")
    set_up_logging("INFO", LogFormat.HUMAN, "telemetry")
    logging.getLogger("spantap.x").debug("not this")
    logging.getLogger("spantap.x").info("this")
    logging.getLogger("asyncio").info("not this")
    logging.getLogger("asyncio").warning("and this")
    assert [line[24:] for line in said()] == [
        "INFO    [telemetry] spantap.x: this",
        "WARNING [telemetry] asyncio: and this",
    ]
    set_up_logging("ERROR")
    logging.getLogger("asyncio").warning("not this")
    assert said() == []


def test_a_line_of_code_that_says_too_much_is_counted_instead(
    said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are not hindered, and its next line a minute later tells how many were left out."""
    now_ns = [0]
    monkeypatch.setattr("proxy.logging.logs.time", SimpleNamespace(monotonic_ns=lambda: now_ns[0]))
    set_up_logging("INFO", "json")
    log = logging.getLogger("spantap.x")

    def say(number: int) -> None:
        log.error("number %d", number)

    lines: list[str] = []
    for number in range(MAX_LINES + 1234):
        say(number)
        lines += said()
    assert len(lines) == MAX_LINES
    log.info("another")
    assert [decode_json(line)["message"] for line in said()] == ["another"]
    now_ns[0] += 60_000_000_000
    say(7)
    say(8)
    assert [decode_json(line)["message"] for line in said()] == [
        "number 7 (and 1,234 more such lines, not shown)",
        "number 8",
    ]


def test_a_standard_error_that_nobody_reads_holds_nothing_up(
    said: Callable[[], list[str]],
) -> None:
    """Lines are lost then, whole; what comes after it was read again is there."""
    set_up_logging("INFO")
    log = logging.getLogger("spantap.x")
    for _ in range(MAX_LINES - 1):  # more than a pipe holds
        log.info("x" * 790)
    lines = said()
    assert 10 < len(lines) < MAX_LINES - 1
    assert {len(line) for line in lines} == {len(lines[0])}
    log.info("read again")
    assert said()[0].endswith("read again")


@pytest.mark.parametrize("stream", [None, "closed", "without a descriptor"])
def test_a_standard_error_that_is_not_there_is_no_trouble(
    stream: str | None, said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python has none where the descriptor was closed when it started."""
    set_up_logging("INFO")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as broken:
        streams = {None: None, "closed": broken, "without a descriptor": object()}
        monkeypatch.setattr("proxy.logging.logs.sys", SimpleNamespace(stderr=streams[stream]))
        logging.getLogger("spantap.x").error("nobody hears this")
    assert said() == []


def test_lines_of_a_kind_are_limited() -> None:
    """Those that a client can cause at will."""
    lines = limit_lines(SystemClock())
    assert [lines.admit() for _ in range(3)] == [0, None, None]


SCRIPT = """
import asyncio, logging, sys, threading, warnings
from proxy.logging.logs import set_up_logging
set_up_logging("INFO", sys.argv[1], "worker 1")

async def fail(text):
    raise ValueError(text)

async def main(text):
    loop = asyncio.get_running_loop()
    task = loop.create_task(fail(text))
    await asyncio.sleep(0.01)
    del task
    loop.call_soon(lambda text: 1 / 0, text)
    await asyncio.sleep(0.01)

class Dying:
    def __del__(self):
        raise ValueError(sys.argv[2])

def leave():
    sys.exit()

asyncio.run(main(sys.argv[2]))
Dying()
warnings.warn(sys.argv[2], UserWarning)
for target in (leave, lambda: {}[sys.argv[2]]):
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
raise (KeyboardInterrupt if sys.argv[3] == "interrupted" else ValueError)(sys.argv[2])
"""


def run_script(*arguments: str, stderr: Any = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT, *arguments]
    return subprocess.run(command, stderr=stderr, text=True, check=False, timeout=30)


@pytest.mark.parametrize("end", ["failed", "interrupted"])
def test_what_nobody_caught_is_a_line_without_its_text(end: str) -> None:
    """In tasks, callbacks, destructors, threads, warnings, and at the very end."""
    ended = run_script("json", CANARY, end)
    lines = [decode_json(line) for line in ended.stderr.splitlines()]
    assert CANARY not in ended.stderr
    assert {line["process"] for line in lines} == {"worker 1"}
    told = [(line["message"], line.get("exception", "").partition(" ")[0]) for line in lines]
    warning, place = told[3][0].rsplit(" at ", 1)
    assert place.startswith("<string>:")
    expected = [
        ("Task exception was never retrieved", "ValueError"),
        ("Exception in callback main.", "ZeroDivisionError"),
        ("an error during clean-up", "ValueError"),
        ("a thread ended because of a defect in spantap", "KeyError"),
        ("spantap ends because of a defect", "ValueError"),
    ]
    assert warning == "Python warns of a UserWarning"
    assert [*told[:3], *told[4:]] == expected[: len(expected) - (end == "interrupted")]
    assert ended.returncode != 0


def test_a_full_disk_below_standard_error_is_no_trouble() -> None:
    """The process goes on to its end."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full")
    with full.open("w") as stream:
        ended = run_script("human", CANARY, "failed", stderr=stream)
    assert ended.returncode == 1
