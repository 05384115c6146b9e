"""``spantap traces show``: what comes first, what is folded, and the bodies as they were."""

from __future__ import annotations

import io
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from codec.text.jsontext import decode_json, encode_json
from telemetry.raw_answer import RawAnswer, pack_raw_answer
from telemetry.store.store import Store
from tests.proxy.recorded_calls import (
    TOOL,
    make_exchange,
    make_failed_exchange,
    make_row,
    make_store,
    span_id_of,
)
from tests.proxy.traces_runs import Ran, Terminal

if TYPE_CHECKING:
    from pathlib import Path

CALL = ("call", "parameters", "metadata")
"""Titles of what is known of a call itself."""


def ask(*messages: tuple[str, str], **members: Any) -> dict[str, Any]:
    """A request of these roles and texts."""
    said = [{"role": role, "content": text} for role, text in messages]
    return {"model": "gpt-demo", "messages": said, **members}


def show(folder: Path, request: dict[str, Any], **options: Any) -> list[str]:
    """The lines that tell of a call with that request."""
    store = make_store(folder / "traces.db", make_exchange(1, request_json=request))
    ran = Ran(store, call_id="last", **options)
    assert (ran.status, ran.err) == (0, "")
    return ran.out.splitlines()


def titles(lines: list[str]) -> list[str]:
    """The titles of the page."""
    return [line for line in lines[1:] if line and not line.startswith(" ")]


def test_what_is_new_comes_first_and_the_tools_last(tmp_path: Path) -> None:
    """The question and the answer, then what was said before, then facts, then tools."""
    turns = [("user", "First?"), ("assistant", "One.")] * 4
    request = ask(("system", "Be brief."), *turns, ("user", "And now?"), tools=[TOOL])
    lines = show(tmp_path, request)
    assert titles(lines) == ["request", "answer", "earlier", "older", *CALL, "tools on offer"]
    at = lines.index("request")
    assert lines[at : lines.index("earlier") - 1] == [
        "request",
        "  system  Be brief.",
        "  user",
        "    And now?",
        "",
        "answer",
        "  assistant",
        "    Hi, you.",
    ]
    assert (
        lines[lines.index("older") + 1 : lines.index("call") - 1]
        == [
            "  user  First?",
            "  assistant  One.",
        ]
        * 2
    )
    assert lines[-1].startswith("  get_weather(city, unit)")


def test_a_system_message_is_its_first_line_and_a_count(tmp_path: Path) -> None:
    """Blank lines in front are no line, and a long first one is cut."""
    lines = show(tmp_path, ask(("system", "\n\nBe brief.\nBe\n\nkind."), ("user", "Hi")))
    assert "  system  Be brief.  (+ 2 lines, 7 characters)" in lines
    long = "x" * 130
    lines = show(tmp_path / "b", ask(("developer", long), ("user", "Hi")))
    assert f"  developer  {'x' * 100}  (+ 30 characters)" in lines


def test_a_long_run_is_folded_but_for_its_last_steps(tmp_path: Path) -> None:
    """What is left out is said in its place, and stands below the answer, a line a message."""
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    steps: list[dict[str, Any]] = []
    for number in range(20):
        steps += [
            {"role": "assistant", "content": None, "tool_calls": [call, call]},
            {"role": "tool", "tool_call_id": "c", "content": f"line {number}\nmore"},
        ]
    request = ask(("user", "Do it."))
    request["messages"] += steps
    lines = show(tmp_path, request)
    assert titles(lines) == ["request", "answer", "in between", *CALL]
    assert "  (30 messages in between: below)" in lines
    folded = lines[lines.index("in between") + 1 : lines.index("call") - 1]
    assert folded[:2] == [
        "  assistant  -> read, read",
        "  tool  read  c  line 0  (+ 1 line, 4 characters)",
    ]
    assert len(folded) == 30
    assert "    line 19" in lines


def test_whole_folds_nothing_and_keeps_the_order(tmp_path: Path) -> None:
    """With ``--full``."""
    turns = [("user", f"Question {n}") for n in range(20)]
    tool = {"type": "function", "function": {"name": "f", "description": "One.\nTwo."}}
    lines = show(tmp_path, ask(("system", "A\nB"), *turns, tools=[tool]), whole=True)
    assert titles(lines) == ["request", "answer", *CALL, "tools on offer"]
    at = lines.index("request")
    assert lines[at + 1 : at + 6] == ["  system", "    A", "    B", "  user", "    Question 0"]
    assert lines.index("    Question 19") < lines.index("answer")
    assert lines[-1] == "  f()  One.\\nTwo."


def test_a_folded_message_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """Nor can the first line of a tool's description."""
    bad = "\x1b]0;pwned\x07\u202e"
    tool = {"type": "function", "function": {"name": bad, "description": f"{bad}\nmore"}}
    request = ask((bad, bad), ("system", bad), *[("user", bad)] * 9, tools=[tool])
    request["messages"][1]["name"] = bad
    for out in (io.StringIO(), Terminal()):
        store = make_store(
            tmp_path / f"{type(out).__name__}.db", make_exchange(1, request_json=request)
        )
        shown = Ran(store, call_id="last", out=out).out
        assert "\x1b]" not in shown
        assert "\u202e" not in shown
        assert "\\x1b]0;pwned" in shown


def test_raw_bodies_are_those_that_were_recorded(tmp_path: Path) -> None:
    """Through a pipe byte by byte, the request's first, each with its line end."""
    request = ask(("user", "caf\u00e9 \u202e\x9b"))
    store = make_store(tmp_path / "traces.db", make_exchange(1, request_json=request))
    (record,) = Ran(store, call_id="last", as_json=True).records
    attributes = record["span"]["attributes"]
    ran = Ran(store, call_id="last", raw=True)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == f"{attributes['input.value']}\n{attributes['output.value']}\n"
    assert decode_json(ran.out.splitlines()[0]) == request


def test_raw_bodies_are_safe_on_a_terminal(tmp_path: Path) -> None:
    """Escaped, each below its title, and nothing is wrapped or cut."""
    request = ask(("user", "\u202e\x9b" + "long " * 500))
    store = make_store(tmp_path / "traces.db", make_exchange(1, request_json=request))
    shown = Ran(store, call_id="last", raw=True, out=Terminal()).out
    assert "\u202e" not in shown
    assert "\x9b" not in shown
    assert "long " * 500 in shown
    assert shown.count("\n") == 4


def make_raw_store(path: Path, *reads: tuple[int, bytes], **members: Any) -> Path:
    """A store of a call with the true bytes of its answer; each read has its milliseconds."""
    exchange = make_exchange(1)
    times_ns = [ms * 1_000_000 for ms, _ in reads]
    answer = RawAnswer(
        **{"content_type": "text/event-stream", "content_encoding": "", "left_bytes": 0, **members},
        first_ns=exchange.start_ns + times_ns[0],
        waits_ns=(0, *[later - earlier for earlier, later in pairwise(times_ns)]),
        sizes_bytes=tuple(len(data) for _, data in reads),
        body=b"".join(data for _, data in reads),
    )
    with Store.open(path) as store:
        store.add([replace(make_row(exchange), raw=pack_raw_answer(answer))])
    return path


def test_raw_shows_a_stream_as_it_came_with_its_pauses(tmp_path: Path) -> None:
    """In the place of the answer that was put together; what came at once has one time."""
    reads = ((412, b"event: a\ndata: {}\n\n"), (440, b"data: {"), (2951, b"}\r\n"), (2951, b"\n"))
    store = make_raw_store(tmp_path / "t.db", *reads, left_bytes=2048)
    ran = Ran(store, call_id="last", raw=True)
    assert (ran.status, ran.err) == (0, "")
    request, *lines = ran.out.split("\n")
    assert decode_json(request)["model"] == "gpt-demo"
    assert lines == [
        "   0.412 s  +0.000 s  event: a",
        "                      data: {}",
        "",
        "   0.440 s  +0.028 s  data: {",
        "   2.951 s  +2.511 s  }",
        "   2.951 s  +0.000 s",
        "                      [2.0 KiB more came, not kept]",
        "",
    ]


def test_a_stream_as_it_came_is_safe_on_a_terminal(tmp_path: Path) -> None:
    """Its title says what it is; a long pause stands out, and nothing is wrapped."""
    reads = ((5, b"data: \x1b]0;pwned\x07\n"), (1500, b"data: " + b"x" * 400 + b"\n"))
    store = make_raw_store(tmp_path / "t.db", *reads, content_type="\x1b[2Jtext")
    shown = Ran(store, call_id="last", raw=True, out=Terminal()).out
    assert not [bad for bad in ("\x1b]", "\x1b[2J", "\x07") if bad in shown]
    assert "answer, as it came: \\x1b[2Jtext · 424 bytes in 2 reads · 1.495 s" in shown
    assert "data: \\x1b]0;pwned\\x07\n" in shown
    assert "\x1b[1;33m   1.500 s  +1.495 s  \x1b[0mdata: " + "x" * 400 + "\n" in shown


def test_bytes_that_are_no_text_are_counted(tmp_path: Path) -> None:
    """So are those in a coding that is not known."""
    store = make_raw_store(tmp_path / "t.db", (5, b"abc"), (9, b"d"), content_encoding="rot13")
    lines = Ran(store, call_id="last", raw=True).out.splitlines()[1:]
    assert lines == ["   0.005 s  +0.000 s  [3 bytes]", "   0.009 s  +0.004 s  [1 bytes]"]


def test_a_title_says_that_an_answer_was_put_together(tmp_path: Path) -> None:
    """Where its true bytes are not kept."""
    shown = Ran(
        make_store(tmp_path / "t.db", make_exchange(1)), call_id="last", raw=True, out=Terminal()
    ).out
    assert "answer, put together from the record" in shown
    assert "request, as it was recorded" in shown


def test_what_there_is_no_body_of_is_said(tmp_path: Path) -> None:
    """On standard error, so that a pipe has bodies alone."""
    failed = make_failed_exchange(1)
    store = make_store(tmp_path / "traces.db", failed)
    ran = Ran(store, call_id="last", raw=True)
    assert ran.out.count("\n") == 1 + ran.out.count('"error"')
    ran = Ran(
        make_store(tmp_path / "b.db", make_exchange(1, response=None)), call_id="last", raw=True
    )
    assert ran.err == "spantap traces: no body of the answer is recorded.\n"
    assert ran.out.count("\n") == 1


def test_one_word_shows_a_call_raw_or_whole(tmp_path: Path) -> None:
    """As ``show`` does; a word that is no id is told, and lists nothing."""
    store = make_store(tmp_path / "traces.db", make_exchange(1))
    word = [span_id_of(1)]
    assert Ran(store, words=word, raw=True).out == Ran(store, call_id="last", raw=True).out
    whole = Ran(store, words=word, full=True).out
    assert whole == Ran(store, call_id="last", whole=True).out
    assert "  system\n    Be brief.\n" in whole
    for name in ("raw", "full"):
        options: dict[str, Any] = {name: True}
        ran = Ran(store, words=["status:ok"], **options)
        assert (ran.status, ran.out) == (2, "")
        assert "shows one call: name it by the beginning of its id." in ran.err


def test_a_call_is_shown_without_what_it_does_not_need(tmp_path: Path) -> None:
    """Imports are most of the time that it takes: no settings' library, API, or SDK."""
    store = make_store(tmp_path / "traces.db", make_exchange(1))
    code = (
        "import sys; from proxy.__main__ import main;"
        f"main(['traces', '--store', {str(store)!r}, 'show', 'last']);"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Hello there" in done.stdout
    imported = set(done.stderr.split())
    assert not imported & {
        "pydantic",
        "codec.apis.table",
        "opentelemetry.sdk.trace",
        "telemetry.finding.filter",
        "aiohttp",
        "asyncio",
    }


@pytest.mark.parametrize("count", [1, 400])
def test_messages_are_told_in_all(count: int, tmp_path: Path) -> None:
    """However many there are, each has its line at least."""
    turns = [("user", f"Question number {n}.") for n in range(count)]
    said = encode_json(show(tmp_path, ask(*turns)))
    assert all(f"Question number {n}." in said for n in range(count))
