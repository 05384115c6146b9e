"""Calls on a terminal and through a pipe."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, timedelta, timezone
from typing import TYPE_CHECKING

import msgspec
import pytest
from rich.text import Text

from codec.apis.table import get_api
from codec.asked import Tool
from codec.chat.answer import ChatMessage, ChatResponse, Choice
from codec.cost import Cost
from codec.text.jsontext import encode_json
from proxy.commands.console import open_console
from proxy.commands.message_lines import tool_line
from proxy.commands.render import print_call
from proxy.commands.table import print_table
from telemetry.observing.exchange import ClientContext
from telemetry.store.rows import SpanState
from tests.proxy.recorded_calls import (
    make_exchange,
    make_failed_exchange,
    make_tools_exchange,
    read_call,
)
from tests.proxy.terminals import terminal

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.reading.call import RecordedCall
    from telemetry.observing.exchange import Exchange


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where a test's store goes."""
    return tmp_path / "traces.db"


def piped(call: RecordedCall, *, whole: bool = False) -> str:
    """The call in full, through a pipe."""
    out = io.StringIO()
    print_call(open_console(out), call, zone=UTC, whole=whole)
    return out.getvalue()


def show(store: Path, exchange: Exchange) -> str:
    """The recorded exchange in full, through a pipe."""
    return piped(read_call(store, exchange))


def test_ids_of_a_call_in_full_are_whole_on_any_terminal(store: Path) -> None:
    """What is longer than a line goes over its end, and the terminal shows all of it."""
    call = read_call(store, make_exchange())
    for width in range(20, 201):
        console, out = terminal(width)
        print_call(console, call, zone=UTC)
        text = Text.from_ansi(out.getvalue()).plain
        whole = {call.summary.span_id, call.summary.trace_id, "14:04:06.123", "342"}
        assert whole <= set(text.split())
        longest = max(map(len, text.splitlines()))
        assert longest <= max(width, 2 + len(call.summary.trace_id))


def test_colours_need_a_terminal(store: Path) -> None:
    """A pipe gets no escape sequence, a terminal does."""
    call = read_call(store, make_failed_exchange())
    console, out = terminal(180)
    print_table(console, [call.summary], zone=UTC)
    print_call(console, call, zone=UTC)
    assert "\x1b[31mupstream_error 429" in out.getvalue()
    assert "\x1b" not in piped(call)


def test_times_are_shown_in_the_zone_given(store: Path) -> None:
    """The zone is the caller's."""
    call = read_call(store, make_exchange())
    out = io.StringIO()
    print_call(open_console(out), call, zone=timezone(timedelta(hours=11)))
    assert "started     2025-11-21 01:04:06.123 +1100" in out.getvalue()


def test_local_zone_is_the_default(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a zone people get their own."""
    import time  # noqa: PLC0415 - only here

    call = read_call(store, make_exchange())
    monkeypatch.setenv("TZ", "XYZ-3")
    time.tzset()
    out = io.StringIO()
    try:
        print_call(open_console(out), call)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "2025-11-20 17:04:06.123 +0300" in out.getvalue()


def test_call_in_full(store: Path) -> None:
    """Head, tokens with details, parameters, messages: everything to read a call by."""
    assert show(store, make_exchange()) == (
        "ChatCompletion gpt-demo  completed\n"
        "  342 ms, 7 in (3 cached), 2 out\n"
        "\n"
        "request\n"
        "  system  Be brief.\n"
        "  user\n"
        "    Hello there\n"
        "\n"
        "answer\n"
        "  assistant\n"
        "    Hi, you.\n"
        "\n"
        "call\n"
        "  started     2025-11-20 14:04:06.123 +0000\n"
        "  took        342 ms, first token after 131 ms\n"
        "  span        0a00000000000001\n"
        "  trace       01010101010101010101010101010101\n"
        "  upstream    demo at 127.0.0.1\n"
        "  request id  req_1\n"
        "  tokens      7 in (3 cache read), 2 out (0 reasoning), 9 total\n"
        "  finish      stop\n"
        "  delivery    kept\n"
        "\n"
        "parameters\n"
        "  model       gpt-demo\n"
        "  stream      true\n"
        "  temperature 0.5\n"
        "\n"
        "metadata\n"
        "  ttft_ms      131.0\n"
        "  usage_source provider\n"
    )


def test_a_call_over_a_websocket_says_so(tmp_path: Path) -> None:
    """Beside its upstream."""
    text = show(tmp_path / "traces.db", make_exchange(protocol="websocket"))
    assert "  upstream    demo at 127.0.0.1, over a WebSocket\n" in text


def test_parameters_are_told_one_a_line(store: Path) -> None:
    """With the path of a nested one; a schema is one value, cut unless all is asked for."""
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(50)}}
    asked: dict[str, object] = {
        "model": "m",
        "messages": [],
        "stop": None,
        "reasoning": {"effort": "high"},
        "response_format": {"type": "json_schema", "json_schema": {"schema": schema}},
        "logit_bias": {"\x1b[31m": 1},
    }
    exchange = make_exchange(request_json=asked)
    text = show(store, exchange)
    assert "  reasoning.effort            high\n" in text
    assert "  stop                        null\n" in text
    assert '  response_format.json_schema {"schema": {"type": "object"' in text
    assert '"p49"' not in text
    assert "\x1b" not in text
    assert '"p49": {"type": "string"}' in piped(
        read_call(store.with_name("w.db"), exchange), whole=True
    )


def test_tools_and_tool_calls_are_shown(store: Path) -> None:
    """Offered tools by signature, calls with their arguments set out, bad JSON verbatim."""
    text = show(store, make_tools_exchange())
    assert "tools on offer\n  get_weather(city, unit)  The weather in a city.\n  custom()\n" in text
    assert "  user  ann\n    Weather?\n" in text
    assert "    -> get_weather  call_0\n       not {json\n" in text
    assert "  tool  get_weather not {json  call_0\n    24 degrees\n" in text
    assert '    -> get_weather  call_1\n       {\n         "city": "Lisbon"\n       }\n' in text


def test_failed_call_shows_its_error(store: Path) -> None:
    """The error's words, and no invented answer."""
    text = show(store, make_failed_exchange())
    assert "  error       RateLimitError: Rate limit reached.\n" in text
    assert "  tokens      none reported\n" in text
    assert "  finish      none came\n" in text
    assert "answer\n  nothing that could be recorded\n" in text


def test_anomalies_and_parent_are_shown(store: Path) -> None:
    """What was odd about a call, and whose child it is."""
    exchange = make_exchange(anomalies=("no_usage", "foreign_chunk"))
    identity = msgspec.structs.replace(exchange.identity, parent_span_id="00000000000000ff")
    text = show(store, msgspec.structs.replace(exchange, identity=identity))
    assert "  anomalies   no_usage, foreign_chunk\n" in text
    assert "  parent      00000000000000ff\n" in text


def test_choices_refusals_and_reasoning_are_labelled(store: Path) -> None:
    """Several choices say which they are; reasoning and refusals are told from text."""
    choices = (
        Choice(index=0, message=ChatMessage(role="assistant", content="42", reasoning="Hm.")),
        Choice(index=1, message=ChatMessage(refusal="No.")),
    )
    body = {"choices": [{"index": 1, "message": {"refusal": "No."}}]}
    text = show(store, make_exchange(response=ChatResponse(choices=choices, body=body)))
    assert "  assistant  output 0\n    (reasoning) Hm.\n    42\n" in text
    assert "  no role  output 1\n    (refusal) No.\n" in text


def test_items_of_an_answer_have_numbers(store: Path) -> None:
    """And a refusal is told from text, whether the answer as a whole was kept or not."""
    parts = [{"type": "output_text", "text": "Well."}, {"type": "refusal", "refusal": "No."}]
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}},
        {"type": "message", "role": "assistant", "content": parts},
    ]
    body = encode_json({"object": "response", "status": "completed", "output": output}).encode()
    response = get_api("responses").read_said(body)
    request = {"model": "m", "input": "hi"}
    call = read_call(
        store, make_exchange(endpoint="responses", request_json=request, response=response)
    )
    attributes = {k: v for k, v in call.span.attributes.items() if k != "output.value"}
    for text in (piped(call), piped(replace(call, span=replace(call.span, attributes=attributes)))):
        assert "  assistant  output 0\n    (reasoning) Hm.\n" in text
        assert "  assistant  output 1\n    -> web_search_call  ws_1\n" in text
        assert "  assistant  output 2\n    Well.\n    (refusal) No.\n" in text


def test_calls_of_a_message_are_shown_once_and_in_their_place(store: Path) -> None:
    """Where the order of text and calls is content."""
    content = [
        {"type": "text", "text": "First"},
        {"type": "tool_use", "id": "t-1", "name": "f", "input": {}},
        {"type": "text", "text": "Then"},
    ]
    body = encode_json({"type": "message", "role": "assistant", "content": content}).encode()
    response = get_api("messages").read_said(body)
    asked = {"model": "m", "messages": [], "tools": [{"name": "f", "input_schema": SCHEMA}]}
    exchange = make_exchange(endpoint="messages", request_json=asked, response=response)
    text = show(store, exchange)
    assert "    First\n    -> f  t-1\n       {}\n    Then\n" in text
    assert text.count("-> f") == 1
    assert "f(city)" in text


def test_tool_call_without_id_or_name_is_shown(store: Path) -> None:
    """What a provider left out is said to be missing."""
    message = {"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}
    request = {"model": "m", "messages": [message]}
    assert "    -> no name\n       {}\n" in show(store, make_exchange(request_json=request))


def test_long_url_is_cut(store: Path) -> None:
    """An image inside a URL is not poured over the terminal; a short URL stays whole."""
    urls = ["https://example.org/a.png", f"data:image/png;base64,{'A' * 5000}"]
    content = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    request = {"model": "m", "messages": [{"role": "user", "content": content}]}
    text = show(store, make_exchange(request_json=request))
    assert f"    (image) {urls[0]}\n    (image) data:image/png;base64,AAAA" in text
    assert "AAA... (5022 characters)\n" in text
    assert len(text) < 2000


def test_the_words_of_a_sound_are_shown_whole(store: Path) -> None:
    """They are shown as reasoning is; a sound without words has its address."""
    words = "Left here. " * 100
    message = {"role": "assistant", "audio": {"id": "a", "transcript": words}}
    text = show(store, make_exchange(request_json={"model": "m", "messages": [message]}))
    assert f"    (transcript) {words}" in text


def test_delivery_says_what_stands_in_its_way(store: Path) -> None:
    """A pending span's failed tries and the backend's words are shown."""
    call = read_call(store, make_exchange())
    summary = replace(
        call.summary, state=SpanState.PENDING, attempts=3, last_error="refused\n\x1b[1m"
    )
    text = piped(replace(call, summary=summary))
    assert "  delivery    pending after 3 failed tries: refused\\n\\x1b[1m\n" in text


def test_call_without_anything_is_shown(store: Path) -> None:
    """A call whose span is damaged has a head and says what is wrong."""
    call = read_call(store, make_exchange())
    span = replace(call.span, attributes={}, status_message="the stored span is damaged")
    text = piped(replace(call, span=span))
    assert "error       the stored span is damaged\n" in text
    assert "upstream" not in text
    assert "parameters" not in text


@pytest.mark.parametrize(
    "foreign", ["\x1b]0;pwned\x07", "\x9b2J", "\u202ereversed", "[red]x[/red]"]
)
def test_foreign_text_cannot_steer_the_terminal(store: Path, foreign: str) -> None:
    """Model, roles, names, contents, ids, arguments, tools, errors: all are escaped."""
    function = {"name": foreign, "description": foreign, "parameters": {"properties": {foreign: 1}}}
    call = {"id": foreign, "function": {"name": foreign, "arguments": f'{{"{foreign}": 1}}'}}
    message = {"role": foreign, "name": foreign, "tool_call_id": foreign, "content": foreign}
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": foreign}}]}
    request = {
        "model": foreign,
        "messages": [message | {"tool_calls": [call]}, image],
        "tools": [{"function": function}],
    }
    exchange = make_failed_exchange(message=foreign)
    exchange = msgspec.structs.replace(make_exchange(request_json=request), **{
        name: getattr(exchange, name)
        for name in ("outcome", "error_type", "error_message", "response")
    })  # fmt: skip
    recorded = read_call(
        store,
        msgspec.structs.replace(
            exchange,
            request_id=foreign,
            anomalies=(foreign,),
            heads={"response": {foreign: foreign, "ratelimit": f'"{foreign}";r=1;t={foreign}'}},
            rate_limits={"ratelimit-policy": f'"{foreign}";q=2'},
        ),
    )
    console, out = terminal(100)
    plain = io.StringIO()
    print_table(open_console(plain), [recorded.summary], zone=UTC)
    print_table(console, [recorded.summary], zone=UTC)
    print_call(console, recorded, zone=UTC)
    for text in (out.getvalue(), plain.getvalue(), piped(recorded)):
        if foreign.startswith("["):
            assert foreign in text, "and is not taken for markup"
        else:
            assert foreign[:2] not in text


def test_long_lines_wrap_on_a_terminal_and_stay_whole_in_a_pipe(store: Path) -> None:
    """Wrapped lines keep their indentation; a pipe gets the paragraph as it is."""
    words = "wrap " * 40 + "end"
    request = {"model": "m", "messages": [{"role": "user", "content": f"{words}\n\nnext"}]}
    call = read_call(store, make_exchange(request_json=request))
    assert f"    {words}\n    \n    next\n" in piped(call)
    console, out = terminal(60)
    print_call(console, call, zone=UTC)
    wrapped = [line for line in out.getvalue().splitlines() if "wrap" in line]
    assert len(wrapped) > 3
    assert all(line.startswith("    wrap") and len(line) <= 60 for line in wrapped)


def test_call_in_full_says_whose_it_is_and_what_it_cost(store: Path) -> None:
    """Session, user, tags and cost, each on a line of its own; absent where nothing is known."""
    exchange = make_exchange()
    assert exchange.response is not None
    told = msgspec.structs.replace(
        exchange,
        context=ClientContext(session_id="s-1", user_id="ann", tags=("a", "b")),
        response=msgspec.structs.replace(exchange.response, cost=Cost(total=0.0123)),
    )
    lines = [" ".join(line.split()) for line in show(store, told).splitlines()]
    wanted = ["cost $0.0123 (provider)", "session s-1", "user ann", "tags a, b"]
    assert [line for line in lines if line in wanted] == [wanted[0], *wanted[1:]]
    plain = show(store.with_name("plain.db"), exchange)
    assert not any(word in plain for word in ("cost ", "session ", "tags "))


HEADS = {
    "request": {"user-agent": "Codex 1.0"},
    "response": {
        "cf-ray": "8f1e-FRA",
        "x-ratelimit-limit-tokens": "200",
        "x-ratelimit-remaining-tokens": "10",
        "x-ratelimit-reset-tokens": "6m0s",
        "anthropic-ratelimit-unified-5h-utilization": "0.25",
    },
}


def test_heads_and_what_is_left_of_limits_are_shown(store: Path) -> None:
    """A line each, the nearest limit first; the fields of heads are nowhere else."""
    lines = [" ".join(line.split()) for line in show(store, make_exchange(heads=HEADS)).split("\n")]
    limits = [line for line in lines if line.startswith("limit ")]
    assert limits == [
        "limit tokens: 5% left, 10 of 200, reset 6m0s",
        "limit unified-5h: 75% left",
    ]
    at = lines.index("heads")
    assert lines[at + 1 : at + 3] == ["> user-agent: Codex 1.0", "< cf-ray: 8f1e-FRA"]
    assert sum("8f1e-FRA" in line for line in lines) == 1


def test_an_embedding_in_full(store: Path) -> None:
    """Its texts stand where a chat has messages, and its parameters are told."""
    exchange = make_exchange(
        endpoint="embeddings",
        request_json={"model": "gpt-demo", "input": ["one", "two"], "dimensions": 2},
        response=ChatResponse(model="gpt-demo", body={"data": [{"embedding": [1, 2]}]}),
        streamed=False,
    )
    text = show(store, exchange)
    assert text.startswith("CreateEmbeddings ")
    for wanted in ("one", "two", "dimensions  2"):
        assert wanted in text


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (2.14e-06, "$0.00000214"),
        (0.5, "$0.5"),
        (0.0, "$0"),
        (12.0, "$12"),
        (1234.5678, "$1234.57"),
    ],
)
def test_a_cost_is_told_in_digits(store: Path, amount: float, words: str) -> None:
    """Behind a dollar sign, six that tell, and never a power of ten."""
    exchange = make_exchange()
    assert exchange.response is not None
    told = msgspec.structs.replace(
        exchange, response=msgspec.structs.replace(exchange.response, cost=Cost(total=amount))
    )
    assert f"cost        {words} (" in show(store, told)


def test_hidden_content_is_said_to_be_hidden(store: Path) -> None:
    """It is not lost."""
    text = show(store, msgspec.structs.replace(make_exchange(), hides_content=True))
    assert "hidden, as the client asked" in text


def test_tools_are_named_wherever_an_api_describes_them() -> None:
    """Beside their type (Responses), or by a type of the provider's own."""
    tools = (
        Tool(type="function", name="f", description="d", parameters={"properties": {"a": {}}}),
        Tool(type="mcp", name="deep"),
        Tool(type="web_search"),
    )
    lines = [str(tool_line(tool)[1]) for tool in tools]
    assert lines == ["f(a)  d", "deep()", "web_search()"]
