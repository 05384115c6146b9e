"""``telemetry.finding.filter``: words typed by somebody, as a condition on calls."""

from __future__ import annotations

import re
from datetime import timedelta, timezone

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from telemetry.errors import FilterError
from telemetry.finding.filter import Filter, parse_filter
from telemetry.finding.keys import KEYS
from telemetry.finding.where import Rows
from telemetry.finding.words import MAX_FILTER_CHARS, MAX_WORDS
from telemetry.reading.sqlite.conditions import write_where
from telemetry.store.rows import SpanState, SpanSummary
from tests.telemetry.finding.calls import (
    CONDITION_TEXTS,
    FILTER_TEXTS,
    NOW_NS,
    VALUES,
    calls_with,
    fill_table,
    make_call,
)

ANY_TEXTS = st.text(max_size=40) | FILTER_TEXTS

CALL = make_call(
    model="gpt-5-mini",
    status="ERROR",
    outcome="truncated",
    state=SpanState.PENDING,
    start_ns=NOW_NS - 60_000_000_000,
    end_ns=NOW_NS - 50_000_000_000,
    prompt_tokens=900,
    completion_tokens=600,
    total_tokens=1_500,
    launch="tests~~4f2a",
    kind="LLM",
    ttft_ns=1_200_000_000,
    cost_usd=0.07,
    cached_tokens=512,
    finish_reason="length",
    error_type="429",
    http_status=429,
    api="chat.completions",
    upstream="groq",
    client="codex_cli_rs",
    session="s-1",
    user="ann",
    request_id="req_7F",
    retry=2,
    streamed=1,
    anomalies="no_usage no_finish_reason",
    tools="grep\nread file",
)


def read(words: str) -> Filter:
    return parse_filter(words, now_ns=NOW_NS)


def read_or_fail(words: str | list[str]) -> Filter | FilterError:
    try:
        return parse_filter(words, now_ns=NOW_NS)
    except FilterError as error:
        return error


def read_if_right(words: str | list[str]) -> Filter:
    """Read a filter; a text that is none is no example."""
    wanted = read_or_fail(words)
    assume(isinstance(wanted, Filter))
    assert isinstance(wanted, Filter)
    return wanted


OF_FACTS = {"duration_ns": ("start_ns", "end_ns")}
"""The columns that a fact is made of, where that is not one of its name."""


def write(wanted: Filter) -> tuple[str, tuple[str | int | float, ...]]:
    """The conditions in SQL, of rows of any kind."""
    where, values = write_where(wanted.where().also(rows=Rows.ALL), "spans")
    return ("1" if not wanted.conditions else where), values


def find_by_sql(calls: list[SpanSummary], wanted: Filter) -> list[int]:
    """The numbers of the calls that SQLite finds."""
    where, values = write(wanted)
    found = fill_table(calls).execute(f"SELECT seq FROM spans WHERE {where} ORDER BY seq", values)
    return [seq for (seq,) in found]


def find_by_predicate(calls: list[SpanSummary], wanted: Filter) -> list[int]:
    return [call.seq for call in calls if wanted.matches(call)]


@pytest.mark.parametrize(
    "condition",
    [
        *("status:error", "status:ERR", "status=error", "outcome:trunc", "outcome:t*d"),
        *("state:pending", "model:gpt-5*", "model:gpt-5-mini", "model:*mini", "model:g*5*i"),
        *("name:ChatCompletion", "kind:llm", "api:chat", "api:chat.completions", "api:*comp*"),
        *(
            "client:Codex",
            "client:codex_cli_rs",
            "client:codex*",
            "session:s-1",
            "user:ann",
            "run:tests",
            "run:te*",
        ),
        *(
            "upstream:groq",
            "run:tests~~4f2a",
            "tool:grep",
            'tool:"read file"',
            "tool:*file",
            "tool:r*d*e",
        ),
        *("finish:length", "error:429", "error:*", "anomaly:no_usage", "anomaly:no_f*"),
        *("id:0000", "id:req_7", "id:req_7F*", "tokens>1k", "tokens:1500", "tokens:>=1500"),
        *("in<1000", "out<=600", "cached>0", "cost>0.05", "cost>$.05", "dur>5s", "dur=10s"),
        *("ttft>1s", "retry>0", "http:429", "http>=400", "streamed:yes", "since:2m", "since:60s"),
    ],
)
def test_a_condition_finds_the_call_and_its_opposite_does_not(condition: str) -> None:
    """Rules 1 and 2, for every key; an opposite finds all others."""
    other = make_call(2, start_ns=0, end_ns=0, name="x", span_id="f", trace_id="f")
    calls = [CALL, other]
    assert find_by_sql(calls, read(condition)) == [1]
    assert find_by_predicate(calls, read(condition)) == [1]
    assert find_by_sql(calls, read(f"-{condition}")) == [2]
    assert find_by_predicate(calls, read(f"-{condition}")) == [2]


@pytest.mark.parametrize(
    "condition",
    [
        *("status:ok", "outcome:completed", "state:kept", "model:gpt-5", "model:GPT-5*"),
        *(
            "model:*5",
            "model:gpt-5-mini*x",
            "kind:tool",
            "api:responses",
            "api:cha",
            "client:cod",
            "run:test",
        ),
        *("run:tests~~4", "tool:gre", "tool:file", "tool:g*file", "anomaly:usage", "id:7F"),
        *("tokens>1500", "cost<0.07", "dur>10s", "http:42", "streamed:no", "since:30s"),
        *("until:2m", "error:4", "error:4*8", "session:s", "retry:1"),
    ],
)
def test_what_is_not_so_is_not_found(condition: str) -> None:
    """A part of a name is not the name, and a bound is exact."""
    assert find_by_sql([CALL], read(condition)) == find_by_predicate([CALL], read(condition)) == []


def test_bounds_of_time() -> None:
    """The first nanosecond belongs to what comes since then, and not to what was until then."""
    assert read("since:60s").matches(CALL)
    assert not read("until:60s").matches(CALL)
    assert read("until:59s").matches(CALL)


@pytest.mark.parametrize("key", KEYS)
@given(st.data())
def test_rule_2_sql_and_predicate_find_the_same(key: str, data: st.DataObject) -> None:
    """By each key, of calls that have something there, or nothing."""
    wanted = read_if_right(f"{data.draw(st.sampled_from(['', '-']))}{key}{data.draw(VALUES[key])}")
    asked = {name for fact in KEYS[key].facts for name in OF_FACTS.get(fact, (fact,))}
    calls = data.draw(calls_with(*sorted(asked)))
    assert find_by_sql(calls, wanted) == find_by_predicate(calls, wanted)


@given(calls_with("model", "tools", "status", "total_tokens", "start_ns"), CONDITION_TEXTS)
def test_rule_2_so_do_several_conditions(calls: list[SpanSummary], text: str) -> None:
    """Whatever stands beside what."""
    wanted = read_if_right(text)
    assert find_by_sql(calls, wanted) == find_by_predicate(calls, wanted)


@given(ANY_TEXTS)
def test_rule_3_what_is_written_reads_as_the_same(text: str) -> None:
    """Also where the clock has gone on, and what is written is written the same again."""
    wanted = read_if_right(text)
    assert parse_filter(str(wanted), now_ns=NOW_NS + 10**15) == wanted
    assert str(read(str(wanted))) == str(wanted)


@given(ANY_TEXTS | st.text(alphabet='-:<>="\\* \n\0\ud800astus', max_size=20))
def test_rule_4_any_text_is_a_filter_or_an_error(text: str) -> None:
    """The error's position is inside the text, and it says what is wrong."""
    result = read_or_fail(text)
    if isinstance(result, Filter):
        assert find_by_sql([CALL], result) == find_by_predicate([CALL], result)
    else:
        assert 0 <= result.position < len(text)
        assert result.text == text
        assert f"(at character {result.position + 1} of" in str(result)


@given(st.lists(ANY_TEXTS, max_size=3))
def test_rule_4_so_are_any_arguments(words: list[str]) -> None:
    """Positions count in the arguments joined by spaces."""
    result = read_or_fail(words)
    if isinstance(result, Filter):
        assert read(str(result)) == result
    else:
        assert result.text == " ".join(words)
        assert 0 <= result.position < len(result.text)


def test_all_words_must_hold() -> None:
    """Rule 1; an empty filter finds all calls."""
    calls = [make_call(1, model="a", retry=1), make_call(2, model="a"), make_call(3, retry=1)]
    assert find_by_sql(calls, read("model:a retry>0")) == [1]
    assert find_by_sql(calls, read("model:a -retry>0")) == [2]
    assert find_by_sql(calls, read("")) == [1, 2, 3]
    assert not read(" ")
    assert read("x")


def test_texts_are_for_a_search() -> None:
    """They are no condition on columns."""
    wanted = read('timeout "any \\"text\\"" model:a')
    assert wanted.texts == ("timeout", 'any "text"')
    assert write(wanted) == ("(model = ?)", ("a",))
    assert str(wanted) == 'model:a timeout "any \\"text\\""'


@pytest.mark.parametrize("text", ["a\\\\b c", 'a\\"b c', "\\", "a:\\\\", '"', "-", "a\n*"])
def test_rule_3_escapes_are_written_as_they_read(text: str) -> None:
    """Backslashes and quotes, alone and beside each other, in texts and in values."""
    wanted = Filter(texts=(text,))
    assert read(str(wanted)) == wanted
    escaped = re.sub(r'([\\"*])', r"\\\1", text)
    wanted = parse_filter([f"model:{escaped}"], now_ns=NOW_NS)
    assert write(wanted)[1] == (text,)
    assert read(str(wanted)) == wanted


def test_known_words_are_read_as_people_write_them() -> None:
    """In either case, with hyphens, by their beginning and by other names; one is not another."""
    assert str(read("outcome:Client-Disc outcome:ok status:ok")) == (
        "outcome:client_disconnected outcome:completed status:ok"
    )


def test_values_are_parameters() -> None:
    """No text of a filter is ever part of the SQL."""
    where, values = write(read("""model:"a' OR 1 --" tool:x*'y upstream:*';"""))
    assert "'" not in where.replace("rest <> ''", "")
    assert values == ("a' OR 1 --", "*x*'y*", "x*'y", "*';")


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("model:a modle:b", 8, "unknown key `modle`; did you mean `model`?"),
        ("-modle:b", 1, "unknown key `modle`; did you mean `model`?"),
        ("provider:groq", 0, "unknown key `provider`; did you mean `upstream`?"),
        ("https://x", 0, "unknown key `https`; put a text to be searched for in double quotes"),
        ("status:eror", 7, "`status` has no `eror`; did you mean `error`?"),
        ("status:xyz", 7, "`status` has no `xyz`; it takes `unset`, `ok` or `error`"),
        ("outcome:ti outcome:co", 19, "takes one word, and `co` can be `completed` or `connect_er"),
        ("status>ok", 6, "`status` takes `:`, as in `status:error`"),
        ("tokens>many", 7, "`tokens` takes a number, such as `5`, `1.5k` or `2M`"),
        ("tokens>0.5", 7, "`tokens` takes a number"),
        (f"tokens>{1 << 63}", 7, "`tokens` takes a smaller number"),
        ("cost>cheap", 5, "`cost` takes an amount in dollars, such as `0.05`"),
        ("dur>5", 4, "`dur` takes a duration with its unit, such as `5s`, `300ms` or `1h30m`"),
        ("since:2026-02-30", 6, "`since` takes a time: `2h` (ago), `14:03`, `today`,"),
        ("since>2h", 5, "`since` takes `:`, as in `since:2h`"),
        ("streamed:maybe", 9, "`streamed` takes `yes` or `no`"),
        ("run:*x", 4, "`run` takes a name, or its beginning and `*`"),
        ("id:*", 3, "`id` takes the beginning of an id"),
        ('anomaly:"a b"', 8, "`anomaly` takes one name"),
        ("model:", 0, "`model` has no value; write `model:gpt-5*`"),
        ('-error:""', 1, "`error` has no value; write `error:*`"),
        ('x ""', 2, "these quotes hold no text to search for"),
        ('model:"a', 6, 'this quote has no end; write `"` after the text'),
        ('"a"b', 3, "after a quoted value comes a space"),
        ("a -b", 2, "only a condition can be excluded, as in `-status:ok`"),
        ("a\0", 1, "a filter is made of text"),
        ("é\udc80", 1, "a filter is made of text"),
        ("a" * (MAX_FILTER_CHARS + 1), MAX_FILTER_CHARS, f"at most {MAX_FILTER_CHARS} characters"),
        ("a " * (MAX_WORDS + 1), 2 * MAX_WORDS, f"at most {MAX_WORDS} words"),
    ],
)
def test_an_error_says_where_and_what_would_be_right(text: str, position: int, words: str) -> None:
    """Rule 4, for each way to be wrong."""
    with pytest.raises(FilterError) as caught:
        read(text)
    assert words in str(caught.value)
    assert caught.value.position == position


def test_the_longest_filters_are_followed() -> None:
    """SQLite takes as many words as a filter may have, and as long a pattern."""
    assert find_by_sql([CALL], read("id:ABCD " * MAX_WORDS)) == []
    assert find_by_sql([CALL], read("-id:ABCD tool:g*p -tool:x*y " * (MAX_WORDS // 3))) == [1]
    longest = f"model:\U0001f600*{'?' * (MAX_FILTER_CHARS - len('model:x*'))}"
    assert find_by_sql([CALL], read(longest)) == []


def test_a_long_value_is_cut_in_the_error() -> None:
    """A complaint is a sentence, whatever was typed."""
    with pytest.raises(FilterError) as caught:
        read(f"status:{'x' * 1_000}")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        (["any text"], '"any text"'),
        (["status:ok", "any", "text"], "status:ok any text"),
        (["run:my agent"], 'launch:"my agent"'),
        (["run:my agent", "-tool:a b"], 'launch:"my agent" -tool:"a b"'),
        (["status:ok tokens>5"], "status:ok tokens>5"),
        (['"any text" status:ok'], 'status:ok "any text"'),
        (['model:"a b" x'], 'model:"a b" x'),
        (["", " "], ""),
        ([" x"], "x"),
    ],
)
def test_an_argument_is_one_word(arguments: list[str], written: str) -> None:
    """Of a command line, where the shell has taken the quotes (``words``, rule 3)."""
    assert str(parse_filter(arguments, now_ns=NOW_NS)) == written


def test_positions_count_through_all_arguments() -> None:
    """As if they were one text."""
    with pytest.raises(FilterError) as caught:
        parse_filter(["any text", "status:ok", "modle:a b"], now_ns=NOW_NS)
    assert caught.value.text == "any text status:ok modle:a b"
    assert caught.value.position == 19


def test_times_are_read_in_the_zone_that_is_given() -> None:
    """16:00 UTC is 18:00 two hours further east."""
    zone = timezone(timedelta(hours=2))
    wanted = parse_filter("since:17:30 until:today", now_ns=NOW_NS, zone=zone)
    assert str(wanted) == "since:2025-11-25T15:30:00Z until:2025-11-24T22:00:00Z"
    assert str(read("since:17:30")) == "since:2025-11-24T17:30:00Z"
