"""The ids that programs send, read by one table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codec.apis.table import get_api
from telemetry.observing.agent_ids import (
    AGENT_HEADS,
    MAX_ID_CHARS,
    PROGRAMS,
    AgentIds,
    read_agent_ids,
)
from telemetry.observing.client_context import HeaderMap
from telemetry.privacy.credential_names import looks_like_credential


def read(heads: dict[str, str], api: str = "chat.completions", **body: Any) -> AgentIds | None:
    """What a call says."""
    asked = get_api(api).decode_asked(json.dumps({"messages": [], **body}).encode())
    return read_agent_ids(tuple(heads.items()), asked)


def test_a_program_that_is_not_in_the_table_says_nothing() -> None:
    """Nor does one that names a session alone, by a head that anybody might send."""
    assert read({"user-agent": "curl/8", "session-id": "s", "x-session-id": "s"}) is None
    assert read({}, metadata={"sessionId": "s"}, user="u") is None
    assert read_agent_ids((), None) is None


def test_what_claude_code_says() -> None:
    """A sub-agent that names no parent was started by the main agent, which has no id."""
    main = {"x-claude-code-session-id": "s", "x-claude-code-prompt-id": "p"}
    assert read(main) == AgentIds(program="claude-code", session="s", prompt="p")
    child = read(main | {"x-claude-code-agent-id": "a"}, diagnostics={"previous_message_id": None})
    assert child == AgentIds(
        program="claude-code", session="s", agent="a", parent="", prompt="p", before=""
    )
    nested = main | {"x-claude-code-agent-id": "b", "x-claude-code-parent-agent-id": "a"}
    found = read(nested, diagnostics={"previous_message_id": "msg_1"})
    assert found is not None
    assert (found.agent, found.parent, found.before, found.is_child) == ("b", "a", "msg_1", True)


@pytest.mark.parametrize(
    ("heads", "purpose"),
    [
        ({"x-claude-code-request-class": "main"}, None),
        ({"x-claude-code-request-class": "compaction"}, "compaction"),
        ({"x-claude-code-request-class": "auxiliary"}, "other"),
        (
            {
                "x-claude-code-request-class": "auxiliary",
                "x-claude-1p-request-class": "followup-generation",
            },
            "suggestion",
        ),
    ],
)
def test_a_class_of_claude_code_is_a_purpose(heads: dict[str, str], purpose: str | None) -> None:
    """The one that says most."""
    found = read({"x-claude-code-session-id": "s"} | heads)
    assert found is not None
    assert found.purpose == purpose


def test_what_codex_says() -> None:
    """In heads and in JSON in one of them, which some requests have in the body."""
    told = json.dumps({"agent_name": "/root/a", "turn_id": "t", "request_kind": "prewarm"})
    heads = {"session-id": "r", "thread-id": "t-1", "x-codex-parent-thread-id": "r"}
    wanted = AgentIds(
        program="codex",
        session="r",
        agent="t-1",
        parent="r",
        name="/root/a",
        prompt="t",
        purpose="prewarm",
    )
    assert read(heads | {"x-codex-turn-metadata": told}, "responses") == wanted
    members = {"client_metadata": {"x-codex-turn-metadata": told}}
    assert read(heads, "responses", **members) == wanted
    broken = read(heads | {"x-codex-turn-metadata": "{"}, "responses")
    assert broken is not None
    assert (broken.agent, broken.name) == ("t-1", "")


@pytest.mark.parametrize(
    ("kind", "purpose"), [("turn", None), ("prewarm", "prewarm"), ("compaction", "compaction")]
)
def test_a_kind_of_codex_is_a_purpose(kind: str, purpose: str | None) -> None:
    """A compaction is a call of the Responses API like every other."""
    found = read({"x-codex-turn-metadata": json.dumps({"request_kind": kind})}, "responses")
    assert found is not None
    assert found.purpose == purpose


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ("s########3", ("", None, None)),
        ("s#explore-call_9#2", ("explore-call_9", "", None)),
        ("s########automatic/4", ("", None, None)),
        ("s#managed-auto-memory-extractor-1#0", ("", None, "memory")),
    ],
)
def test_what_qwen_code_says(prompt: str, wanted: tuple[str, str | None, str | None]) -> None:
    """The id of the prompt has that of the agent, which ends with that of its tool call."""
    found = read({}, metadata={"sessionId": "s", "promptId": prompt})
    assert found is not None
    assert (found.agent, found.parent, found.purpose) == wanted


def test_what_gemini_cli_says() -> None:
    """In the envelope of Code Assist."""
    asked = get_api("gemini.stream").decode_asked(
        b'{"contents": [], "user_prompt_id": "p", "session_id": "s"}'
    )
    wanted = AgentIds(program="gemini-cli", session="s", prompt="p")
    assert read_agent_ids((), asked) == wanted


@pytest.mark.parametrize("said", [{}, [], 1, None, "", {"promptId": 1, "previous_message_id": []}])
def test_what_is_no_id_is_left_out(said: Any) -> None:
    """Whatever stands where an id is looked for."""
    heads = {"x-claude-code-session-id": "s" * 999}
    found = read(heads, diagnostics=said, metadata=said, client_metadata=said)
    assert found is not None
    assert (found.session, found.before) == ("s" * MAX_ID_CHARS, "")
    assert (read({}, metadata=said) is None) is (not isinstance(said, dict) or not said)


def test_heads_with_ids_are_copied_unless_they_are_ignored() -> None:
    """None of them looks like a credential; a login of somebody's own may be in it (R7)."""
    default = HeaderMap.build()
    assert {name.encode() for name in AGENT_HEADS} <= default.names
    ignoring = HeaderMap.build(dict.fromkeys(AGENT_HEADS, "ignore"))
    assert not {name.encode() for name in AGENT_HEADS} & ignoring.names
    assert [name for name in AGENT_HEADS if looks_like_credential(name)] == []


def test_every_program_is_known_by_what_it_sends() -> None:
    """Marks are heads or members that its row reads, and no program has another's."""
    marks = [mark for program in PROGRAMS for mark in program.marks]
    assert len(marks) == len({*marks})
