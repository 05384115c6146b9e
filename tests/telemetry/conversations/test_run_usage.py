"""Usage of a run: sums, parts, growth; and what is written and read."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.table import get_api
from codec.errors import CodecError
from codec.history_items import read_history_items
from codec.history_states import START, Digests
from codec.usage import Usage
from telemetry.conversations.repeated_calls import MAX_SEEN
from telemetry.conversations.run_usage import MAX_LISTED, RunUsage, UsageSums
from tests.call_count import count_calls
from tests.telemetry.conversations.talks import answer, calls, result, user
from tests.telemetry.conversations.usage_runs import DIGESTS, SYSTEM, TOOLS, AgentRun, ask, say

PARTS = "estimated_tokens_by_part"
MAX_SAVED_BYTES = 128 * 1024
"""What an open run may take on disk at most: states, calls that came once, and little else."""


def test_a_run_tells_where_its_tokens_went() -> None:
    """Exact sums, the estimate beside them, and how the context grew."""
    run = AgentRun(user("Fix it"))
    first = run.call(prompt=2_000, completion=20, cached=0, said=calls("call_0"))
    second = run.call(
        calls("call_0"), result("call_0", "x" * 4_000), prompt=3_000, completion=30, cached=1_920
    )
    told = run.summarise()
    parts = told.pop(PARTS)
    assert sum(first[PARTS].values()) == 2_000
    assert sum(second[PARTS].values()) == 3_000
    assert parts == {name: first[PARTS].get(name, 0) + second[PARTS][name] for name in parts}
    assert second[PARTS]["new"] > second[PARTS]["history"]
    assert told == {
        "prompt_tokens": 5_000,
        "cached_tokens": 1_920,
        "completion_tokens": 50,
        "context": {"first": 2_000, "last": 3_000, "greatest": 3_000},
    }


def test_a_system_block_that_names_the_bill_changes_no_prompt() -> None:
    """Claude Code's differs in every request: neither has the prompt changed, nor broke a cache."""
    run = AgentRun(user("Fix it"))
    mark = "x-anthropic-billing-header: cc_version=2.1.331; cch="
    for cch in ("3f2a1", "9bc04", "77e1d"):
        system = SYSTEM | {"content": f"{mark}{cch};\n{SYSTEM['content']}"}
        run.call(body={"system": system}, prompt=2_000, completion=20, cached=1_900)
    run.call(prompt=2_000, completion=20, cached=0)
    told = run.summarise()
    assert "prompt_changes" not in told
    assert [one["at"] for one in told["cache_breaks"]] == ["expired_or_evicted"]


def test_nothing_is_told_where_nothing_is_known() -> None:
    """No call, a call that failed, an answer without usage."""
    run = AgentRun(user("hi"))
    assert run.summarise() == {}
    assert run.usage.add(ask(user("hi")), None) == {}
    assert run.call() == {}
    assert run.summarise() == {}


def test_what_some_calls_did_not_say_is_told_as_missing() -> None:
    """Sums of fewer calls say so; the parts are those of the calls that were counted."""
    run = AgentRun(user("hi"))
    run.call(prompt=100, completion=5, cached=0)
    run.call(answer("a"), user("b"), prompt=120, completion=5)
    run.usage.add(ask(user("hi")), None)
    told = run.summarise()
    assert told["calls_that_told"] == {
        "prompt_tokens": 2,
        "cached_tokens": 1,
        "completion_tokens": 2,
    }
    assert sum(told[PARTS].values()) == told["prompt_tokens"] == 220


def test_parts_are_those_of_all_counted_prompts_or_none() -> None:
    """One call whose prompt the provider keeps, and they would not be the sum."""
    usage = RunUsage(DIGESTS)
    usage.add(ask(api="responses", input="hi"), say(prompt=10))
    assert PARTS in usage.summarise()
    asked = ask(api="responses", input="ho", previous_response_id="r-1")
    assert usage.add(asked, say(prompt=20)) == {}
    usage.add(ask(api="responses", input="hi"), say(prompt=10))
    assert PARTS not in usage.summarise()
    assert usage.summarise()["prompt_tokens"] == 40


def test_a_compaction_is_a_history_that_fell() -> None:
    """By a quarter, and the greatest context stays known."""
    run = AgentRun(user("Fix it"), answer("Hm"))
    run.call(user("Go on"), prompt=50_000)
    run.history[:] = [user("What was said: …")]
    run.call(prompt=12_000)
    run.call(answer("Well"), user("?"), prompt=13_000)
    assert run.summarise()["context"] == {
        "first": 50_000,
        "last": 13_000,
        "greatest": 50_000,
        "compactions": [{"call": 2, "from": 50_000, "to": 12_000}],
    }


@pytest.mark.parametrize(
    ("body", "tokens"), [({}, 40_000), ({"model": "m-2"}, 10_000), ({"tools": []}, 10_000)]
)
def test_no_compaction_is_a_prompt_that_fell_for_another_reason(
    body: dict[str, Any], tokens: int
) -> None:
    """A little; another model, which counts otherwise; tools that are gone."""
    run = AgentRun(user("Fix it"), answer("Hm"))
    run.call(user("Go on"), prompt=50_000)
    if "tools" not in body:
        run.history[:] = [user("What was said: …")]
    run.call(body=body, prompt=tokens)
    assert "compactions" not in run.summarise()["context"]


def test_a_failed_call_is_not_what_the_next_is_compared_with() -> None:
    """Its prompt was counted by nobody."""
    run = AgentRun(user("hi"))
    run.call(prompt=5_000, cached=4_992)
    run.usage.add(ask(user("something else")), None)
    assert "cache_broke_at" not in run.call(prompt=5_000, cached=4_992)
    assert "prompt_changes" not in run.summarise()


def test_of_several_answers_the_first_one_counts() -> None:
    """Choices that call the same do not repeat it: a client goes on with one of them."""
    message = calls("call_0")
    choices = [{"index": n, "message": message, "finish_reason": "stop"} for n in range(3)]
    said = get_api("chat.completions").read_said(json.dumps({"choices": choices}).encode())
    usage = RunUsage(DIGESTS)
    usage.add(ask(user("hi"), n=3), said)
    assert usage.summarise() == {}
    usage.add(ask(user("hi"), n=3), said)
    assert usage.summarise()["repeated_tool_calls"] == [{"name": "read", "times": 2}]


def test_lists_end() -> None:
    """A cache that breaks with each call; there is a count of all."""
    run = AgentRun(user("Fix it"))
    for number in range(40):
        system = {"role": "system", "content": f"It is {number}."}
        run.history[:] = [user(f"{number}")]
        run.call(
            body={"system": system},
            prompt=50_000 if number % 2 else 10_000,
            cached=0 if number else 9_984,
        )
    told = run.summarise()
    assert len(told["cache_breaks"]) == MAX_LISTED
    assert told["cache_break_count"] == 39
    assert told["cache_breaks"][0] == {
        "call": 2,
        "at": "system",
        "cached_tokens": 0,
        "expected_tokens": 10_000,
    }
    assert told["prompt_changes"] == {"system": 39}
    cut = AgentRun()
    for number in range(40):
        cut.history[:] = [user(f"{number}")]
        cut.call(prompt=10_000 if number % 2 else 50_000)
    context = cut.summarise()["context"]
    assert (len(context["compactions"]), context["compaction_count"]) == (MAX_LISTED, 20)


def test_memory_is_bounded() -> None:
    """A long run with a long history, and calls that are all different."""
    run = AgentRun(*[user(f"{number} " * 100) for number in range(3_000)])
    for number in range(3 * MAX_SEEN // 100):
        ids = [f"call_{number}_{n}" for n in range(100)]
        said = calls(*ids)
        for n, one in enumerate(said["tool_calls"]):
            one["function"]["arguments"] = f'{{"n": {100 * number + n}}}'
        run.call(said=said, prompt=100_000)
    assert len(run.usage.save()) < MAX_SAVED_BYTES


def test_a_sum_that_no_attribute_holds_is_left_out() -> None:
    """Two counts of 63 bits; what cannot be written begins anew."""
    run = AgentRun(user("hi"))
    for _ in range(3):
        run.call(prompt=2**63 - 1, completion=1)
    told = run.summarise()
    assert not told.keys() & {"prompt_tokens", PARTS}
    assert msgspec.json.encode(told)
    assert told["completion_tokens"] == 3
    assert RunUsage.load(run.usage.save(), DIGESTS).summarise() == {}


def test_nothing_of_the_content_is_told_or_written() -> None:
    """Names of tools are, which may be shown."""
    run = AgentRun(user("c4n4ry"))
    said = calls("c4n4ry", name="read")
    said["tool_calls"][0]["function"]["arguments"] = '{"c4n4ry": 1}'
    system = {"role": "system", "content": "c4n4ry"}
    for number in range(3):
        run.call(
            said,
            result("c4n4ry", "c4n4ry"),
            body={"system": system, "model": "c4n4ry", "tool_choice": f"c4n4ry{number}"},
            said=said,
            prompt=5_000,
            cached=4_992 if not number else 0,
        )
    told = json.dumps(run.summarise())
    assert "tool_choice" in told
    assert "c4n4ry" not in told
    assert b"c4n4ry" not in run.usage.save()


def test_names_that_may_not_be_shown_are_neither_told_nor_written() -> None:
    """They are absent from both."""
    usage = RunUsage(DIGESTS)
    for _ in range(3):
        usage.add(ask(user("hi")), say(calls("a", name="c4n4ry")), shows_names=False)
    assert usage.summarise() == {"repeated_tool_calls": [{"times": 3}]}
    assert b"c4n4ry" not in usage.save()


def test_a_call_costs_the_same_however_long_its_history_is() -> None:
    """Where items and states are there already: the rest is done by C."""

    def count(length: int) -> int:
        history = [user("a"), calls("call_0"), result("call_0", "x" * 100)] * length
        asked, said = ask(SYSTEM, *history, tools=TOOLS), say(prompt=5_000, cached=0)
        items = read_history_items(asked.read_messages())
        assert items is not None
        states = DIGESTS.go_on(START, items.history)
        usage = RunUsage(DIGESTS)
        usage.add(asked, said, items=items, states=states)
        return count_calls(lambda: usage.add(asked, said, items=items, states=states, answered=[]))

    short, long = count(1), count(500)
    assert short == long < 150


MESSAGES = st.lists(
    st.sampled_from([user("a"), user("b" * 50), answer("c"), calls("x", "y"), result("x", "d")]),
    max_size=6,
)
CALLS = st.lists(
    st.fixed_dictionaries(
        {"history": MESSAGES, "system": st.sampled_from(["", "A", "B"]), "tools": st.booleans()},
        optional={
            "prompt": st.integers(0, 100_000),
            "completion": st.integers(0, 100),
            "cached": st.integers(0, 100_000),
            "written": st.integers(0, 100_000),
            "said": st.sampled_from([answer("e"), calls("x"), calls("y", name="grep")]),
        },
    ),
    max_size=8,
)


def add(usage: RunUsage, call: dict[str, Any]) -> dict[str, Any]:
    """Add a call."""
    told = {name: value for name, value in call.items() if name in {"prompt", "completion"}}
    told |= {name: call[name] for name in ("cached", "written", "said") if name in call}
    tools: dict[str, Any] = {"tools": TOOLS} if call["tools"] else {}
    system = [SYSTEM | {"content": call["system"]}] if call["system"] else []
    return dict(usage.add(ask(*system, *call["history"], **tools), say(**told)))


@given(CALLS)
def test_parts_together_are_the_prompt_tokens(run: list[dict[str, Any]]) -> None:
    """Of each call and of the run; a break says that fewer came than were expected."""
    usage = RunUsage(DIGESTS)
    for call in run:
        told = add(usage, call)
        if PARTS in told:
            assert sum(told[PARTS].values()) == call["prompt"]
        if "cache_broke_at" in told:
            assert call["cached"] < told["cache_expected_tokens"] <= call["prompt"]
    whole: dict[str, Any] = usage.summarise()
    if PARTS in whole:
        assert sum(whole[PARTS].values()) == whole["prompt_tokens"]
    assert msgspec.json.decode(msgspec.json.encode(whole)) == whole


@given(CALLS, CALLS)
def test_a_run_that_was_written_and_read_goes_on(
    before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> None:
    """As if nothing had happened."""
    usage = RunUsage(DIGESTS)
    for call in before:
        add(usage, call)
    again = RunUsage.load(usage.save(), DIGESTS)
    assert again.summarise() == usage.summarise()
    for call in after:
        assert add(again, call) == add(usage, call)
    assert again.summarise() == usage.summarise()
    assert again.save() == usage.save()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
MEMBERS = st.sampled_from(
    [
        *("messages", "input", "contents", "system", "instructions", "tools", "functions"),
        *("model", "response_format", "text", "output_config", "tool_choice", "thinking"),
        *("conversation", "prompt", "previous_response_id", "cachedContent", "content"),
        *("choices", "output", "candidates", "usage", "usageMetadata", "context_management"),
    ]
)
USAGES = st.dictionaries(
    st.sampled_from(["prompt_tokens", "input_tokens", "promptTokenCount", "cached_tokens"]), JSON
)
BODIES = st.dictionaries(MEMBERS, JSON | USAGES, max_size=6)
APIS = ("chat.completions", "responses", "messages", "gemini.generate", "ollama.chat")


@given(st.lists(st.tuples(st.sampled_from(APIS), BODIES, BODIES), max_size=4))
def test_nothing_raises(run: list[tuple[str, dict[str, Any], dict[str, Any]]]) -> None:
    """Whatever requests and answers are."""
    usage = RunUsage(DIGESTS)
    for name, body, told in run:
        api = get_api(name)
        said = None
        with contextlib.suppress(CodecError):
            said = api.read_said(json.dumps(told).encode())
        with contextlib.suppress(CodecError):
            usage.add(api.decode_asked(json.dumps(body).encode()), said)
    assert RunUsage.load(usage.save(), DIGESTS).summarise() == usage.summarise()


def test_by_another_key_comparing_begins_anew() -> None:
    """Digests that differ for no other reason would break every cache."""
    run = AgentRun(user("hi"))
    run.call(prompt=5_000, cached=4_992, said=calls("a"))
    other = RunUsage.load(run.usage.save(), Digests(b"o" * 32))
    told = other.add(ask(user("ho")), say(calls("a"), prompt=5_000, cached=0))
    assert "cache_broke_at" not in told
    assert other.summarise()["prompt_tokens"] == 10_000
    assert "repeated_tool_calls" not in other.summarise()


def test_what_another_version_wrote_is_not_compared() -> None:
    """One that marked other things."""
    run = AgentRun(user("hi"))
    run.call(prompt=5_000, cached=4_992)
    written = msgspec.msgpack.decode(run.usage.save())
    written["before"]["marks"] = written["before"]["marks"][:2]
    other = RunUsage.load(msgspec.msgpack.encode(written), DIGESTS)
    assert "cache_broke_at" not in other.add(ask(user("ho")), say(prompt=5_000, cached=0))
    assert other.summarise()["prompt_tokens"] == 10_000


@given(st.binary(max_size=200))
def test_bytes_that_are_no_run_give_a_fresh_one(data: bytes) -> None:
    """Nothing raises."""
    assert RunUsage.load(data, DIGESTS).summarise() == {}


def test_bytes_that_are_cut_give_a_fresh_one() -> None:
    """Wherever."""
    run = AgentRun(user("hi"))
    run.call(prompt=5_000, cached=4_992, said=calls("a"))
    data = run.usage.save()
    for length in range(len(data)):
        assert RunUsage.load(data[:length], DIGESTS).summarise() == {}


def test_counts_are_summed_and_a_zero_is_one() -> None:
    """What no call told is not there (R6)."""
    sums = UsageSums()
    assert sums.summarise(0) == {}
    for cached in (0, 5):
        sums.add(Usage(prompt=10, cache_read=cached, completion=1))
    assert sums.summarise(2) == {"prompt_tokens": 20, "cached_tokens": 5, "completion_tokens": 2}


def test_a_sum_of_fewer_calls_says_so() -> None:
    """It gives the number of its calls."""
    sums = UsageSums()
    sums.add(Usage(prompt=10, cache_write=3))
    sums.add(Usage(prompt=10))
    assert sums.summarise(2) == {
        "prompt_tokens": 20,
        "cache_write_tokens": 3,
        "calls_that_told": {"cache_write_tokens": 1},
    }


def test_a_sum_that_no_attribute_holds_is_not_told() -> None:
    """It is left out."""
    sums = UsageSums()
    for _ in range(2):
        sums.add(Usage(prompt=2**63 - 1, completion=1))
    assert sums.summarise(2) == {"completion_tokens": 2}
