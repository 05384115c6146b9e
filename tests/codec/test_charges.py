"""``codec.charges``: what an answer is billed by besides its counts, as each API tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.gemini.said import read_answer as read_contents
from codec.apis.messages.said import read_answer as read_message
from codec.apis.responses.said import read_response
from codec.charges import NO_CHARGES, Charges, read_charges
from codec.chat.response import decode_response
from codec.text.jsontext import encode_json
from tests.codec.apis.messages.events import MESSAGE

if TYPE_CHECKING:
    from codec.said import Said

SAID = {"type": "message", "input_tokens": 10, "output_tokens": 5}
COMPACTION = {"type": "compaction", "input_tokens": 90, "output_tokens": 9}
ADVICE = {"type": "advisor_message", "model": "m-2", "input_tokens": 900, "output_tokens": 90}


def of_message(*blocks: dict[str, Any], **usage: Any) -> Charges:
    """The charges of a message with these blocks and counts."""
    usage = {"input_tokens": 10, "output_tokens": 5, **usage}
    body = MESSAGE | {"content": [*blocks], "usage": usage}
    return read(read_message, body)


def of_response(*items: dict[str, Any], **members: Any) -> Charges:
    """The charges of a response with these items."""
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    return read(read_response, {"object": "response", "output": items, "usage": usage, **members})


def of_candidate(counts: dict[str, Any], **members: Any) -> Charges:
    """The charges of Gemini's answer with these counts."""
    return read(read_contents, {"candidates": [members], "usageMetadata": counts})


def read(reader: Any, body: dict[str, Any]) -> Charges:
    said: Said = reader(encode_json(body).encode())
    return said.read_charges()


def of_chat(**message: Any) -> Charges:
    """The charges of a chat with this message."""
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return read(decode_response, {"model": "m", "choices": [choice], "usage": usage})


def search(kind: str | None, **members: Any) -> dict[str, Any]:
    """A call of the web search of the Responses API."""
    action = {} if kind is None else {"action": {"type": kind}}
    return {"type": "web_search_call", "status": "completed", **action, **members}


def test_most_answers_are_billed_by_their_counts_alone() -> None:
    """Also where they say that all was ordinary."""
    counts = {"prompt_tokens": 1, "completion_tokens": 1, "num_sources_used": 0}
    assert read_charges(counts) == Charges()
    assert read_charges({"prompt_tokens": 1}) is NO_CHARGES
    ordinary = of_message(
        server_tool_use={"web_search_requests": 0, "web_fetch_requests": 2},
        iterations=[SAID],
    )
    assert ordinary == Charges()
    assert of_response() is NO_CHARGES


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"server_tool_use": {"web_search_requests": 3}}, Charges(web_searches=3)),
        ({"service_tier": "priority"}, Charges(tier="priority")),
        ({"speed": "fast"}, Charges(speed="fast")),
        ({"inference_geo": "us"}, Charges(place="us")),
        ({"server_tool_use": {"dig_requests": 1}}, Charges(unknown=("dig_requests",))),
        ({"num_sources_used": 4}, Charges(unknown=("num_sources_used",))),
        ({"server_side_tool_usage_details": {"web_search_calls": 2, "x_search_calls": 0}},
         Charges(unknown=("web_search_calls",))),
        ({"server_side_tool_usage_details": {"web_search_calls": 0}}, Charges()),
    ],
)  # fmt: skip
def test_a_usage_tells_tools_and_terms(usage: dict[str, Any], expected: Charges) -> None:
    """Wherever it comes: OpenRouter has Anthropic's counts of tools in chats."""
    assert of_message(**usage) == expected
    assert read_charges({"prompt_tokens": 1, "completion_tokens": 1} | usage) == expected


@pytest.mark.parametrize(
    ("message", "unknown"),
    [
        ({"content": "Hi", "executed_tools": [{"type": "browser_search"}]}, ("executed_tools",)),
        ({"content": "Hi", "executed_tools": None}, ()),
        ({"content": "Hi", "executed_tools": []}, ()),
        ({"tool_calls": [{"type": "builtin_function", "function": {"name": "$web_search"}}]},
         ("builtin_function",)),
        ({"tool_calls": [{"type": "function", "function": {"name": "web_search"}}]}, ()),
    ],
)  # fmt: skip
def test_tools_that_the_provider_of_a_chat_runs_are_unknown(
    message: dict[str, Any], unknown: tuple[str, ...]
) -> None:
    """Groq bills the searches that it ran, Moonshot those that it is to run."""
    assert of_chat(**message).unknown == unknown


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param({"iterations": [COMPACTION, SAID]},
                     [(None, 90, 9), (None, 10, 5)], id="compaction"),
        pytest.param({"iterations": [SAID, ADVICE]}, [(None, 10, 5), ("m-2", 900, 90)],
                     id="advisor"),
        pytest.param({"input_tokens": 20, "output_tokens": 10, "iterations": [SAID, SAID]},
                     [(None, 10, 5), (None, 10, 5)], id="two requests"),
        pytest.param({"iterations": [ADVICE]}, [("m-2", 900, 90), (None, 10, 5)],
                     id="the counts are the other step"),
        pytest.param({"iterations": [COMPACTION]}, [(None, 90, 9), (None, 10, 5)], id="paused"),
        pytest.param({"input_tokens": 100, "output_tokens": 14, "iterations": [COMPACTION, SAID]},
                     [(None, 90, 9), (None, 10, 5)], id="summed up by a gateway"),
    ],
)  # fmt: skip
def test_each_step_of_a_message_is_billed_for_itself(
    usage: dict[str, Any], expected: list[tuple[str | None, int, int]]
) -> None:
    """An advisor's at its model; the rest at that of the answer."""
    charges = of_message(**usage)
    found = [(step.model, step.tokens.prompt, step.tokens.completion) for step in charges.steps]
    assert found == expected
    assert charges.unknown == ()


@pytest.mark.parametrize(
    "usage",
    [
        {"iterations": [SAID | {"input_tokens": 9}, ADVICE]},
        {"iterations": [SAID, SAID]},
        {"iterations": [SAID, {**SAID, "type": "fallback_message"}]},
        {"iterations": [SAID | {"model": "m-0"}, COMPACTION | {"model": "m-1"}]},
        {"iterations": [SAID, {"type": "dream", "input_tokens": 1, "output_tokens": 1}]},
        {"iterations": [SAID, {**ADVICE, "model": None}]},
    ],
)
def test_steps_that_do_not_come_to_the_counts_are_unknown(usage: dict[str, Any]) -> None:
    """Steps that another model took up, or of a kind that nobody knows, are unknown, too."""
    charges = of_message(**usage)
    assert (charges.steps, charges.unknown) == ((), ("iterations",))


def test_code_that_anthropic_ran_is_unknown() -> None:
    """It is billed by the hour."""
    block = {"type": "server_tool_use", "name": "bash_code_execution", "id": "s", "input": {}}
    assert of_message(block).unknown == ("code_execution",)
    assert of_message({**block, "name": "web_search"}) == Charges()


@pytest.mark.parametrize(
    ("items", "members", "expected"),
    [
        ([search("search"), search("open_page"), search(None)], {}, Charges(web_searches=2)),
        ([search("search", status="failed")], {}, Charges()),
        ([search("search")], {"tool_usage": {"web_search": {"num_requests": 4}}},
         Charges(web_searches=4)),
        ([{"type": "file_search_call", "status": "completed"}], {}, Charges(file_searches=1)),
        ([search("search")], {"tools": [{"type": "web_search_preview_2025_03_11"}]},
         Charges(web_searches=1, unknown=("web_search_preview",))),
        ([{"type": "code_interpreter_call"}], {}, Charges(unknown=("code_interpreter_call",))),
        ([{"type": "image_generation_call"}], {}, Charges(unknown=("image_generation_call",))),
        ([{"type": "shell_call", "environment": {"type": "container_reference"}}], {},
         Charges(unknown=("shell_call",))),
        ([{"type": "shell_call"}, {"type": "mcp_call"}], {}, Charges()),
    ],
)  # fmt: skip
def test_the_tools_of_a_response(
    items: list[dict[str, Any]], members: dict[str, Any], expected: Charges
) -> None:
    """OpenAI's: searches by the call; what has another price is unknown."""
    assert of_response(*items, **members) == expected


@pytest.mark.parametrize(
    ("counts", "members", "expected"),
    [
        ({}, {}, Charges()),
        ({"serviceTier": "flex"}, {}, Charges(tier="flex")),
        ({"service_tier": "PRIORITY"}, {}, Charges(tier="priority")),
        ({"trafficType": "ON_DEMAND"}, {}, Charges(tier="standard")),
        ({"trafficType": "ON_DEMAND_PRIORITY"}, {}, Charges(tier="priority")),
        ({"trafficType": "PROVISIONED_THROUGHPUT"}, {}, Charges(tier="provisioned_throughput")),
        ({}, {"groundingMetadata": {}}, Charges()),
        ({}, {"groundingMetadata": {"webSearchQueries": ["q"]}},
         Charges(unknown=("groundingMetadata",))),
    ],
)  # fmt: skip
def test_googles_tiers_and_searches(
    counts: dict[str, Any], members: dict[str, Any], expected: Charges
) -> None:
    """Gemini's word and that of Vertex AI; what a search costs there, nothing tells."""
    assert of_candidate({"promptTokenCount": 1, **counts}, **members) == expected
