"""``telemetry.spans.open_calls``: what is told of a call while it is under way, and what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from codec.text.jsontext import encode_json
from telemetry.facts import MAX_PREVIEW_CHARS
from telemetry.frames.frame import End
from telemetry.observing.client_context import HeaderMap
from telemetry.observing.encryption import OWN_CIPHER
from telemetry.observing.observer import Observer
from telemetry.observing.open_call import OpenCall
from telemetry.privacy.json_strings import REDACTED
from telemetry.privacy.redaction import Redaction
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.open_calls import MAX_MODEL_CHARS, MAX_SHOWN_CHARS, tell_open
from telemetry.spans.rules import SpanRules
from tests.telemetry import tap_frames
from tests.telemetry.tap_frames import ASKED_STREAM, HEL, ROLE, START_NS, begin, exchange_frames

if TYPE_CHECKING:
    from telemetry.frames.frame import Frame

AGENT = [("user-agent", "OpenAI/Python 1.2")]


def look(frames: list[Frame], rules: SpanRules | None = None) -> list[OpenCall | None]:
    """What is told after these frames."""
    rules = rules or SpanRules()
    observer = Observer(header_map=HeaderMap.build(), hides_inputs=rules.hides_bodies)
    for frame in frames:
        observer.feed(frame)
    return [tell_open(exchange, rules) for exchange in observer.look()]


def under_way(**members: Any) -> list[Frame]:
    """The frames of a call whose answer has begun."""
    members = {"asked": ASKED_STREAM, "request_headers": AGENT, **members}
    return exchange_frames(ROLE, HEL, **members)[:-1]


def test_what_has_come_so_far_is_told() -> None:
    """Step by step: who called, for which model, the answer's status and its reads."""
    frames = under_way()
    told = OpenCall(
        span_id=f"{1:016x}",
        trace_id=f"{1:032x}",
        start_ns=START_NS,
        api="chat.completions",
        upstream="default",
        client="openai",
    )
    steps = [look(frames[:count]) for count in range(1, 6)]
    members: list[dict[str, Any]] = [
        {},
        {"model": "m-1", "what": "hi"},
        {"model": "m-1", "what": "hi", "http_status": 200},
        {"model": "m-1", "what": "hi", "http_status": 200, "chunks": 1},
        {"model": "m-1", "what": "hi", "http_status": 200, "chunks": 2},
    ]
    expected = [
        {name: getattr(told, name) for name in told.__struct_fields__} | more for more in members
    ]
    assert steps == [[OpenCall(**one)] for one in expected]


def test_a_call_that_has_ended_is_not_open() -> None:
    """Nor is one whose frames are unknown."""
    assert look([*under_way(), tap_frames.end()]) == []
    assert look([End(exchange=9, at_ns=1, kind=tap_frames.end().kind)]) == []


def test_the_model_is_hidden_where_inputs_are() -> None:
    """By the settings or by the client's own word."""
    hides = SpanRules(privacy=PrivacySwitches(hide_inputs=True))
    asks = [*AGENT, ("x-spantap-content", "none")]
    for told in (look(under_way(), hides), look(under_way(request_headers=asks))):
        [call] = told
        assert call is not None
        assert (call.model, call.client) == (None, "openai")


def test_credentials_and_what_patterns_find_are_masked() -> None:
    """In the model's name and in the program's."""
    key = "sk-canary-0123456789abcdef"
    encrypted = OWN_CIPHER.encrypt(f"authorization: Bearer {key}".encode())
    frames = under_way(
        asked=b'{"model":"%s","messages":[]}' % key.encode(), request_headers=[("user-agent", key)]
    )
    frames[0] = begin(headers=(("user-agent", key),), encrypted=encrypted)
    assert key not in repr(look(frames))
    rules = SpanRules(redaction=Redaction({"model": "m-[0-9]+", "agent": "Open"}))
    assert look(under_way()) != look(under_way(), rules)
    [call] = look(under_way(), rules)
    assert call is not None
    assert "m-1" not in repr(call)
    assert "open" not in str(call.client)


def ask(rules: SpanRules | None = None, *messages: dict[str, Any], **members: Any) -> str | None:
    """What is told to be new in a chat with these messages."""
    asked = encode_json({"model": "m-1", "messages": messages}).encode()
    [call] = look(under_way(asked=asked, **members), rules)
    assert call is not None
    return call.what


WORDS = "Why does main fail?"
REMINDER = "<system-reminder>Today is Monday.</system-reminder>"
STEP = (
    {"role": "user", "content": WORDS},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "Read"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "r"},
)


def test_what_is_new_is_told() -> None:
    """The user's own words, else which tools have answered, or what the call is for."""
    parts = [{"type": "text", "text": text} for text in (REMINDER, f"{WORDS}\n")]
    assert ask(None, {"role": "user", "content": parts}) == WORDS
    assert ask(None, *STEP) == "Read ✓"
    title = {"role": "system", "content": "You are a title generator."}
    assert ask(None, title, {"role": "user", "content": WORDS}) == "title"
    assert ask(None) is None
    long = "x" * (MAX_SHOWN_CHARS + 1)
    assert ask(None, {"role": "user", "content": long}) is None


@pytest.mark.parametrize(
    ("endpoint", "asked", "what"),
    [
        ("completions", {"prompt": WORDS}, WORDS),
        ("completions", {"prompt": [1, 2]}, None),
        ("embeddings", {"input": [WORDS, "b"]}, f'embedding "{WORDS}"'),
        ("rerank", {"query": WORDS, "documents": ["d"]}, f'ranking "{WORDS}"'),
        ("images", {"prompt": WORDS}, f'image "{WORDS}"'),
        ("audio.transcriptions", {"file": {"content_type": "audio/mpeg"}}, "transcription"),
        ("moderations", {"input": WORDS}, "moderation"),
    ],
)
def test_what_is_new_in_other_apis(endpoint: str, asked: dict[str, Any], what: str | None) -> None:
    """As in the rows that the calls will have."""
    frames = under_way(asked=encode_json({"model": "m", **asked}).encode())
    frames[0] = begin(endpoint=endpoint)
    [call] = look(frames[:2])
    assert call is not None
    assert call.what == what


@pytest.mark.parametrize(
    "switch",
    ["hide_inputs", "hide_input_messages", "hide_input_text", "hide_llm_invocation_parameters"],
)
def test_nothing_is_told_where_inputs_are_hidden(switch: str) -> None:
    """By the settings; a client's own word hides all, too."""
    rules = SpanRules(privacy=PrivacySwitches(**{switch: True}))
    assert ask(rules, *STEP) is None
    assert ask(rules, STEP[0]) is None
    asks = [*AGENT, ("x-spantap-content", "off")]
    assert ask(None, STEP[0], request_headers=asks) is None


@pytest.mark.parametrize(
    ("switch", "endpoint", "asked", "what"),
    [
        ("hide_prompts", "completions", {"prompt": WORDS}, None),
        ("hide_embeddings_text", "embeddings", {"input": WORDS}, "embedding"),
        ("hide_retrieval_documents", "rerank", {"query": WORDS, "documents": []}, "ranking"),
    ],
)
def test_switches_of_other_content(
    switch: str, endpoint: str, asked: dict[str, Any], what: str | None
) -> None:
    """Each hides what its API is about, and not which API it is."""
    frames = under_way(asked=encode_json({"model": "m", **asked}).encode())
    frames[0] = begin(endpoint=endpoint)
    [call] = look(frames[:2], SpanRules(privacy=PrivacySwitches(**{switch: True})))
    assert call is not None
    assert call.what == what


def test_what_is_new_is_masked_before_it_is_cut() -> None:
    """Finds of patterns, keys of the head and of the body, and long images."""
    rules = SpanRules(redaction=Redaction({"key": "key-[0-9]{40}"}))
    words = "x" * (MAX_PREVIEW_CHARS - 10) + " key-" + "7" * 40
    assert "7" not in str(ask(rules, {"role": "user", "content": words}))
    key = "sk-canary-0123456789abcdef"
    encrypted = OWN_CIPHER.encrypt(f"authorization: Bearer {key}".encode())
    told = {"model": "m-1", "messages": [{"role": "user", "content": f"my key is {key}"}]}
    frames = under_way(asked=encode_json(told).encode())
    frames[0] = begin(encrypted=encrypted)
    [call] = look(frames)
    assert call is not None
    assert call.what == f"my key is {REDACTED}"
    servers = [{"type": "mcp", "server_url": "https://x.test", "authorization": key}]
    frames = under_way(
        asked=encode_json({"model": "m", "input": f"my key is {key}", "tools": servers}).encode()
    )
    frames[0] = begin(endpoint="responses")
    [call] = look(frames[:2])
    assert call is not None
    assert call.what == f"my key is {REDACTED}"


def test_what_is_known_is_not_looked_for_again() -> None:
    """A watcher asks twice a second."""
    observer = Observer(header_map=HeaderMap.build())
    for frame in under_way():
        observer.feed(frame)
    [exchange] = observer.look()
    first = tell_open(exchange, SpanRules())
    assert first is not None
    known = replace(first, what="known")
    assert tell_open(exchange, SpanRules(), known) == known


def test_what_is_not_sampled_is_not_told() -> None:
    """Such a call gets no span."""
    frames = under_way()
    frames[0] = begin(identity=tap_frames.identity(trace_flags=0))
    assert look(frames) == [None]


@pytest.mark.parametrize("length", [MAX_MODEL_CHARS, 10 * MAX_MODEL_CHARS])
def test_a_model_s_name_has_a_limit(length: int) -> None:
    """A client may write what it likes."""
    asked = b'{"model":"%s","messages":[]}' % (b"x" * length)
    [call] = look(under_way(asked=asked))
    assert call is not None
    assert call.model == "x" * MAX_MODEL_CHARS
