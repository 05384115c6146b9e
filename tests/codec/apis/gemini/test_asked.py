"""``codec.apis.gemini``: what a request asks for, and what a plain answer says.

See ``docs/contract/apis.md#gemini``.
"""

from __future__ import annotations

from typing import Any

import pytest

from codec.apis.gemini.asked import ContentRequest
from codec.apis.gemini.content import read_content
from codec.apis.gemini.said import read_answer, read_usage
from codec.parts import Media, ToolResult
from codec.text.jsontext import encode_json

CONTENTS: dict[str, Any] = {"contents": []}
PATH = "/v1beta/models/gemini-3:generateContent"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({}, "contents is not a list"),
        ({"contents": "Hi"}, "contents is not a list"),
        (CONTENTS | {"tools": "f"}, "tools is not a list"),
        (CONTENTS | {"tools": {}}, None),
        ({"contents": {}}, None),
    ],
)
def test_what_makes_it_no_request_is_said(body: dict[str, Any], fault: str | None) -> None:
    """Vertex AI takes an object for a list of one."""
    assert ContentRequest(body, PATH).fault == fault


@pytest.mark.parametrize(
    ("config", "count"),
    [({"candidateCount": 3}, 3), ({"candidateCount": 0}, 1), ({"candidate_count": 2}, 2), ({}, 1)],
)
def test_candidates_are_counted(config: dict[str, Any], count: int) -> None:
    """One, unless more are asked for, in either spelling."""
    assert ContentRequest(CONTENTS | {"generationConfig": config}, PATH).choice_count == count
    assert ContentRequest(CONTENTS | {"generation_config": config}, PATH).choice_count == count


def test_the_model_is_in_the_path_else_in_the_body() -> None:
    """The path's counts, escapes undone."""
    assert ContentRequest({"model": "m"}, "/v1/models/gemini%2D3:generateContent").model == (
        "gemini-3"
    )
    assert ContentRequest({"model": "models/m"}, "/odd").model == "m"


@pytest.mark.parametrize("name", ["parametersJsonSchema", "parameters_json_schema", "parameters"])
def test_either_schema_of_a_function_is_its_parameters(name: str) -> None:
    """A JSON schema counts before Google's own."""
    schema = {"type": "object"}
    declared = {"parameters": {"type": "OBJECT"}} | {"name": "f", name: schema}
    body = CONTENTS | {"tools": [{"function_declarations": [declared]}]}
    [tool] = ContentRequest(body, PATH).read_tools()
    assert (tool.type, tool.name, tool.parameters, tool.value) == (
        *("function", "f", schema, declared),
    )


@pytest.mark.parametrize(
    ("mime_type", "kind"),
    [("IMAGE/png", "image"), ("audio/wav", "audio"), ("video/mp4", "video"), ("", "document")],
)
def test_files_have_their_url_and_their_name(mime_type: str, kind: str) -> None:
    """Of whatever kind; what is no image, sound or video is a document."""
    file = {"mimeType": mime_type, "fileUri": "gs://b/f", "displayName": "notes"}
    [part] = read_content({"parts": [{"fileData": file}]}, "user").parts
    expected = Media(kind=kind, url="gs://b/f", mime_type=mime_type or None, name="notes")
    assert part == expected


def candidate(text: str, **members: Any) -> dict[str, Any]:
    return {"content": {"parts": [{"text": text}]}, "finishReason": "STOP"} | members


def test_candidates_are_sorted_by_their_index() -> None:
    """One without has that of its place."""
    body = {"candidates": [candidate("b", index=1), candidate("a", index=0), candidate("c")]}
    answers = read_answer(encode_json(body).encode()).answers
    assert [(one.index, one.message.content) for one in answers] == [(0, "a"), (1, "b"), (2, "c")]


def test_a_block_reason_counts_where_no_candidate_is() -> None:
    """Beside candidates it refuses none of them."""
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}}
    alone = read_answer(encode_json(blocked).encode())
    assert (alone.refused, alone.finish_reasons) == ([0], [(0, "SAFETY")])
    beside = read_answer(encode_json(blocked | {"candidates": [candidate("a")]}).encode())
    assert (beside.refused, beside.finish_reasons) == ([], [(0, "STOP")])


@pytest.mark.parametrize(
    ("prompt", "said", "thought", "total", "completion"),
    [
        (10, 5, 7, 22, 12),
        (10, 12, 7, 22, 12),  # the total has no room for the thoughts
        (10, 7, 7, 17, 7),
        (10, 5, 7, 15, 12),  # but they cannot be among fewer
        (None, 5, 7, 12, 12),
        (10, None, 7, 17, 7),
        (10, 5, None, 15, 5),
    ],
)
def test_thoughts_count_once(
    prompt: int | None, said: int | None, thought: int | None, total: int, completion: int
) -> None:
    """Beside what candidates say, unless the total says that they are in it."""
    names = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount")
    told = dict(zip(names, (prompt, said, thought, total), strict=True))
    usage = read_usage({name: count for name, count in told.items() if count is not None})
    assert usage is not None
    assert usage.completion == completion
    assert usage.reasoning == thought


def test_sound_is_counted_on_either_side() -> None:
    """Of what was asked and of what was said."""
    details = [{"modality": "TEXT", "tokenCount": 1}, {"modality": "AUDIO", "tokenCount": 2}]
    usage = read_usage({"promptTokensDetails": details, "candidatesTokensDetails": details[:1]})
    assert usage is not None
    assert (usage.prompt_audio, usage.completion_audio) == (2, None)
    usage = read_usage({"promptTokensDetails": [], "candidatesTokensDetails": details})
    assert usage is not None
    assert (usage.prompt_audio, usage.completion_audio) == (None, 2)


@pytest.mark.parametrize(
    ("mode", "forces"), [("ANY", True), ("AUTO", False), ("NONE", False), (None, False)]
)
def test_a_mode_forces_a_call(mode: str | None, forces: bool) -> None:
    """In either spelling of the members."""
    for name, member in (
        ("toolConfig", "functionCallingConfig"),
        ("tool_config", "function_calling_config"),
    ):
        body = CONTENTS | {name: {member: {"mode": mode}}}
        assert ContentRequest(body, PATH).forces_tool is forces
    assert not ContentRequest(CONTENTS, PATH).forces_tool


@pytest.mark.parametrize(
    ("response", "is_error"), [({"error": "down"}, True), ({"output": 1}, False), (None, False)]
)
def test_a_result_says_that_its_tool_failed(response: Any, is_error: bool) -> None:
    """By the key that Google's SDKs give it."""
    part = {"functionResponse": {"name": "f", "response": response}}
    [result] = read_content({"role": "user", "parts": [part]}, "user").parts
    assert isinstance(result, ToolResult)
    assert result.is_error is is_error


@pytest.mark.parametrize(("allowed", "forces"), [(["a"], True), (["a", "b"], False), ([], False)])
def test_a_choice_among_several_forces_none(allowed: list[str], forces: bool) -> None:
    """Those that are allowed count, or all on offer."""
    tools = [{"functionDeclarations": [{"name": name} for name in ("a", "b")]}]
    calling = {"mode": "ANY", "allowedFunctionNames": allowed}
    body = CONTENTS | {"tools": tools, "toolConfig": {"functionCallingConfig": calling}}
    assert ContentRequest(body, PATH).forces_tool is forces
