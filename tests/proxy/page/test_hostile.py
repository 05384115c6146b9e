"""Whatever clients, providers or a damaged disk say: strict JSON by the schema, and never a 500."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from shutil import copyfile
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from telemetry.facts import COLUMN_NAMES, CallColumns
from telemetry.store.store import Store
from tests.proxy.page.serving import serve_api
from tests.proxy.recorded_calls import make_exchange, make_store, make_tools_exchange
from tests.telemetry.conversations.agents import TWO, TWO_RESULTS, Agents
from tests.telemetry.conversations.talks import answer, user
from tests.telemetry.damage import make_older
from tests.telemetry.run_rows import Run
from tests.telemetry.span_rows import make_row

if TYPE_CHECKING:
    from pathlib import Path

    from telemetry.store.rows import SpanRow
    from tests.proxy.page.serving import Told

NASTY = "\x00\x1b[2J\u202e\u2066\ufeff<img src=x onerror=alert(1)>\ud800' OR 1=1 --\r\n\x7f"
DEEP = "[" * 90 + "]" * 90


_LISTS = (
    *("status", "calls", "calls?filter=status:ok", "calls?filter=word", "conversations"),
    *("conversations?lone=true", "stats", "stats?filter=status:ok", "groups", "groups?by=user"),
    *("failures", "failures?filter=status:error", "rankings", "rankings?by=run"),
)

_OF_CALL = (
    *("", "/raw", "/raw?part=span", "/raw?part=response", "/diff", "/copy", "/copy?as=python"),
    *("/copy?as=json", "/tools/0", "/messages/0", "/messages/1?part=0", "/messages/1?part=call-0"),
    *("/messages/0?of=answer", "/messages/0?of=answer&part=call-0", "/images/0", "/images/1"),
    *("/stream", "/stream?from=9", "/raw?part=stream"),
)


_OF_RUN = ("runs/", "failures?run=")


async def ask_all(store: Path) -> list[Told]:
    """Ask for all that there is of the calls and conversations of a store."""
    async with serve_api(store) as api:
        rows = (await api.get("calls"))["calls"]
        paths = [*_LISTS]
        paths += [f"calls/{row['span_id']}{more}" for row in rows for more in _OF_CALL]
        paths += [f"calls/{one['span_id']}/diff?with={rows[0]['span_id']}" for one in rows]
        numbers = {one["conversation"] for one in rows if isinstance(one["conversation"], int)}
        for number in numbers | {1, 7}:
            paths += [f"conversations/{number}{more}" for more in ("", "/transcript", "/context")]
        numbers = {one["run"] for one in rows if isinstance(one["run"], int)}
        paths += [f"{one}{number}" for number in numbers | {1, 812} for one in _OF_RUN]
        told = [await api.ask(path) for path in paths]
    assert not [one for one in told if one.status not in {200, 400, 404}]
    return told


async def test_hostile_words_stay_words(tmp_path: Path) -> None:
    """NUL, escapes, bidi, markup and half characters, in every place of a request."""
    asked = {
        "model": NASTY,
        "user": NASTY,
        "metadata": {NASTY: NASTY},
        "temperature": 1e308,
        "seed": 10**400,
        "deep": [[[[[NASTY]]]]],
        "tools": [{"type": "function", "function": {"name": NASTY, "description": NASTY}}],
        "messages": [
            {"role": NASTY, "name": NASTY, "content": NASTY},
            {"role": "user", "content": [{"type": NASTY, NASTY: NASTY}, NASTY, None, 5]},
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "javascript:alert(1)"}}],
            },
            {
                "role": "assistant",
                "tool_calls": [{"id": NASTY, "function": {"name": NASTY, "arguments": NASTY}}],
            },
            {"role": "tool", "tool_call_id": NASTY, "content": DEEP},
        ],
    }
    store = make_store(tmp_path / "t.db", make_exchange(1, request_json=asked))
    told = await ask_all(store)
    assert any(b"onerror" in one.body for one in told)
    for one in told:
        if one.headers["Content-Type"] == "application/json":
            assert b"\x00" not in one.body
            assert b"\x1b" not in one.body


def hostile_rows(seed: int) -> list[SpanRow]:
    """Rows whose spans have attributes of any type under the names that are read."""
    dice = random.Random(seed)
    names = (
        *("metadata", "input.value", "output.value", "llm.invocation_parameters"),
        *("spantap.request.body", "spantap.response.body", "url.path", "server.address"),
        *("server.port", "llm.system", "llm.provider", "llm.cost.total", "llm.cost.prompt"),
        *("llm.token_count.prompt_details.cache_read", "llm.finish_reason", "error.type"),
        *("llm.input_messages.0.message.role", "llm.input_messages.0.message.content"),
        *("llm.input_messages.0", "llm.input_messages.99999999999999999999.message.role"),
        *("llm.input_messages." + "9" * 5_000 + ".message.role", "llm.input_messages.²"),
        *("llm.input_messages.1.message.contents.0.message_content.type", "llm.tools.0"),
        *("llm.input_messages.1.message.contents.0.message_content.text", "reranker.query"),
        *("llm.input_messages.1.message.contents.0.message_content.image.image.url",),
        *("llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments",),
        *("llm.tools.0.tool.json_schema", "llm.tools.0.tool.name", "tag.tags"),
        *("reranker.input_documents.0.document.content", "openinference.span.kind"),
        *("reranker.output_documents.0.document.score", "gen_ai.request.stream"),
    )
    texts = (
        *("", NASTY.replace("\ud800", ""), "{", "[1]", "null", "NaN", "-Infinity", "1e999"),
        *('{"conversation": 5, "cut": [], "retry": true}', '"\\ud800"', DEEP, "[" * 5_000),
        *('{"conversation": {"cache_broke_at": "x", "cache_expected_tokens": "y"}}',),
        *('{"ttft_ms": NaN, "chunk_count": 1e400, "anomalies": [{}], "flagged": 5}',),
        *('{"conversation": {"estimated_tokens_by_part": {"system": -5, "new": "x"}}}',),
        *('{"retry_count": -1, "rate_limits": 5, "refused_choices": {"0": 1}, "cut": {"a": "b"}}',),
        *('{"headers": {"request": [], "response": {"ratelimit": 5}, "left_out": "x"}}',),
        *('{"headers": 5, "rate_limits": {"ratelimit": "limit=1e9, remaining=-9"}}',),
        *("data:image/png;base64,iVBORw0KGgo", "data:image/png;base64,%%%", "data:,", "data:"),
        *('{"type": "function", "function": 5}', "https://x/\u202e", "10" * 3_000, "9" * 5_000),
    )
    rows = []
    for number in range(1, 7):
        row = make_row(number)
        request = ExportTraceServiceRequest.FromString(row.span)
        span = request.resource_spans[0].scope_spans[0].spans[0]
        for name in names:
            value = span.attributes.add(key=name).value
            match dice.randrange(7):
                case 0:
                    value.int_value = dice.choice((-1, 0, (1 << 63) - 1))
                case 1:
                    value.double_value = dice.choice((float("nan"), float("inf"), -1e308))
                case 2:
                    value.bytes_value = b"\xff\x00"
                case 3:
                    value.bool_value = True
                case 4:
                    value.array_value.values.add().string_value = dice.choice(texts)
                case _:
                    value.string_value = dice.choice(texts)
        columns = CallColumns(kind="LLM", conversation=7, link_rule="state", session="s")
        rows.append(replace(row, span=request.SerializeToString(), columns=columns))
    return rows


@pytest.mark.parametrize("seed", range(6))
async def test_attributes_of_any_type_are_told_or_left_out(tmp_path: Path, seed: int) -> None:
    """Spans that no version of ours ever wrote."""
    with Store.open(tmp_path / "t.db", delivers=False) as owner:
        owner.add(hostile_rows(seed))
    await ask_all(tmp_path / "t.db")


@pytest.mark.parametrize("blob", ["x''", "x'00ff00ff'", "'text'", "5", "randomblob(500)"])
async def test_damaged_bytes_are_told_as_damaged(tmp_path: Path, blob: str) -> None:
    """A call without content, that says so; those beside it are whole."""
    store = make_store(tmp_path / "t.db", make_tools_exchange(1), make_exchange(2))
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute(f"UPDATE span_bytes SET span = {blob} WHERE seq = 1")
    await ask_all(store)
    async with serve_api(store) as api:
        (whole, damaged) = (await api.get("calls"))["calls"]
        assert (await api.get(f"calls/{whole['span_id']}"))["messages"] != []
        told = await api.get(f"calls/{damaged['span_id']}")
        assert told["messages"] == []
        assert "damaged" in told["notes"][0]


_ALONE = ("start_ns", "recorded_ns", "run", "conversation", "kind", "parent_span_id")
"""Columns by which rows are found, each of which is damaged alone; all others are together."""

_TOGETHER = (
    *("end_ns", "model", "status", "outcome", "prompt_tokens", "size_bytes", "state", "launch"),
    *("name", "trace_id", "last_error", *(name for name in COLUMN_NAMES if name not in _ALONE)),
)


@pytest.mark.parametrize("value", ["'x'", "1 << 62", "9e999", "NULL", "CAST(x'ff' AS TEXT)"])
async def test_columns_of_the_wrong_type_hide_nothing(tmp_path: Path, value: str) -> None:
    """Each column but the ids, in calls, tools and the rows of agents."""
    run = Run(3)
    run.call(0, 1_000, "grep")
    run.tool("grep", 1_000, 10)
    run.call(2_000, 500)
    run.agent(2_500)
    whole, damaged = tmp_path / "whole.db", tmp_path / "t.db"
    with Store.open(whole, delivers=False) as owner:
        owner.add(run.rows)
    for names in (*((name,) for name in _ALONE), _TOGETHER):
        copyfile(whole, damaged)
        with closing(sqlite3.connect(damaged)) as connection, connection:
            ignored = "OR IGNORE" if value == "NULL" else ""  # where the table refuses it
            for name in names:
                connection.execute(f"UPDATE {ignored} spans SET {name} = {value}")
        await ask_all(damaged)


async def test_a_store_without_newer_columns_is_told(tmp_path: Path) -> None:
    """Of a version before checksums, that no owner has migrated: its rows lack what came later."""
    store = make_store(tmp_path / "t.db", make_tools_exchange(1), make_exchange(2))
    make_older(store)
    await ask_all(store)
    async with serve_api(store) as api:
        assert (await api.get("status"))["calls"] == 2
        row = (await api.get("calls"))["calls"][0]
        assert (row["conversation"], row["client"]) == (None, None)
        assert (await api.get("stats"))["totals"]["calls"] == 2
        assert (await api.get(f"calls/{row['span_id']}"))["conversation"] is None
        assert (await api.get("conversations"))["conversations"] == []


async def test_rows_that_name_each_other_in_circles_are_told(tmp_path: Path) -> None:
    """An agent below its own tool, and a call that goes on from itself."""
    run = Run(3)
    run.call(0, 1_000, "task")
    tool = run.tool("task", 1_000, 10)
    run.agent(2_000, parent_span_id=tool.span_id)
    other = Run(4, trace_id=run.trace_id, conversation=9)
    own = other.tool("task", 1_000, 10)
    other.agent(2_000, parent_span_id=own.span_id)
    with Store.open(tmp_path / "t.db", delivers=False) as owner:
        owner.add([*run.rows, *other.rows])
    async with serve_api(tmp_path / "t.db") as api:
        for number in (7, 9):
            told = await api.get(f"conversations/{number}")
            assert told["bars"] != []


async def test_a_store_that_is_deleted_from_meanwhile_is_told(tmp_path: Path) -> None:
    """The call that another goes on from is gone: all of that one is new."""
    with Agents(tmp_path / "t.db") as agents:
        first = agents.call(user("Fix it"), said=TWO)
        second = agents.call(user("Fix it"), TWO, *TWO_RESULTS, said=answer("Done"))
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection, connection:
        for table in ("spans", "span_bytes"):
            connection.execute(f"DELETE FROM {table} WHERE seq = 1")
    await ask_all(tmp_path / "t.db")
    async with serve_api(tmp_path / "t.db") as api:
        told: Any = await api.get(f"calls/{second}")
        assert (told["new_from"], told["conversation"]["goes_on_from"]) == (0, None)
        assert (await api.ask(f"calls/{first}")).status == 404
