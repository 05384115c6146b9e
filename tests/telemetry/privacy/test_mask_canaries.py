"""What is hidden is nowhere: canaries in every place of a request and an answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.chat.response import decode_response
from codec.text.jsontext import decode_json
from telemetry.privacy.redaction import READY_MADE, Redaction
from tests.telemetry.exchanges import build_exchange_attributes, make_exchange
from tests.telemetry.privacy.masks import EVERYTHING, OPEN, mask_of

if TYPE_CHECKING:
    from telemetry.privacy.mask import Mask

CANARY = "canary-7f3a"


LEAVES = st.sampled_from([CANARY, f"{CANARY} é", f'{{"a": "{CANARY}"}}', 1, 0.5, None, True])
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "content", "url", "image_url", "arguments", "function"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=5,
)
CALL = st.fixed_dictionaries({"function": st.fixed_dictionaries({"arguments": VALUES})})
PART = VALUES | st.fixed_dictionaries(
    {
        "type": st.sampled_from(["text", "image_url", "input_audio", "file", "refusal"]),
        "text": VALUES,
        "image_url": VALUES | st.fixed_dictionaries({"url": VALUES}),
        "input_audio": st.fixed_dictionaries({"data": VALUES, "format": VALUES}),
        "file": st.fixed_dictionaries({"file_data": VALUES, "filename": VALUES}),
    }
)
MESSAGE = VALUES | st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "tool"]), "content": VALUES | st.lists(PART, max_size=2)},
    optional={
        "tool_calls": st.lists(CALL, max_size=2),
        "function_call": st.fixed_dictionaries({"arguments": VALUES}),
        "refusal": VALUES,
        "reasoning_content": VALUES,
    },
)
PARAMETERS = {
    "prediction": VALUES,
    "stop": VALUES,
    "suffix": VALUES,
    "response_format": VALUES,
    CANARY[:6]: VALUES,
}
REQUESTS = st.fixed_dictionaries(
    {"model": st.just("m"), "messages": VALUES | st.lists(MESSAGE, max_size=3)},
    optional={"tools": st.just([]), **PARAMETERS},
)
PROMPTS = st.fixed_dictionaries(
    {"model": st.just("m"), "prompt": VALUES | st.lists(VALUES, max_size=3)}, optional=PARAMETERS
)
USAGES = st.fixed_dictionaries({"prompt_tokens": st.integers(0, 9), "more": VALUES})
ANSWERS = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries(
                {"index": st.integers(0, 2), "message": MESSAGE, "text": VALUES, "logprobs": VALUES}
            ),
            max_size=2,
        )
    },
    optional={"usage": USAGES, "citations": VALUES},
)
INPUT_SWITCHES = ["hide_inputs", "hide_input_messages", "hide_input_text"]
OUTPUT_SWITCHES = ["hide_outputs", "hide_output_messages", "hide_output_text"]


def shown_by(*switches: str, mask: Mask | None = None, **members: Any) -> str:
    """Everything that the span of an exchange shows with these switches, as one text."""
    exchange = make_exchange(**members)
    mask = mask or mask_of(*switches, content=exchange.api.content)
    return json.dumps(mask.attributes(build_exchange_attributes(exchange)), ensure_ascii=False)


@given(REQUESTS, st.sampled_from(INPUT_SWITCHES))
def test_hidden_requests_are_nowhere(request: dict[str, Any], switch: str) -> None:
    """Wherever a canary sits in a chat request, hidden input hides it."""
    assert CANARY not in shown_by(switch, request=request)


@given(PROMPTS, st.sampled_from([*INPUT_SWITCHES, "hide_prompts"]))
def test_hidden_prompts_are_nowhere(request: dict[str, Any], switch: str) -> None:
    """The same of a legacy completion."""
    assert CANARY not in shown_by(switch, request=request, endpoint="completions")


@given(VALUES | st.lists(VALUES), st.sampled_from([*INPUT_SWITCHES, "hide_embeddings_text"]))
def test_hidden_embeddings_are_nowhere(embedded: Any, switch: str) -> None:
    """The same of an embedding."""
    request = {"model": "m", "input": embedded, "user": CANARY}
    assert CANARY not in shown_by(switch, request=request, endpoint="embeddings")


@given(
    ANSWERS,
    st.sampled_from([("chat.completions", name) for name in OUTPUT_SWITCHES])
    | st.sampled_from([("completions", name) for name in [*OUTPUT_SWITCHES, "hide_choices"]])
    | st.sampled_from([("embeddings", name) for name in OUTPUT_SWITCHES]),
)
def test_hidden_answers_are_nowhere(answer: dict[str, Any], case: tuple[str, str]) -> None:
    """Wherever a canary sits in an answer, hidden output hides it."""
    endpoint, switch = case
    request = {"messages": [{"role": "user", "content": "Hi"}], "prompt": "Hi", "input": "Hi"}
    response = decode_response(json.dumps(answer).encode())
    shown = shown_by(switch, request=request, endpoint=endpoint, response=response)
    assert CANARY not in shown


@given(REQUESTS, ANSWERS)
def test_content_off_shows_no_content(request: dict[str, Any], answer: dict[str, Any]) -> None:
    """With everything hidden there is no canary of either side, tools included."""
    request = {**request, "tools": [{"function": {"name": CANARY, "description": CANARY}}]}
    response = decode_response(json.dumps(answer).encode())
    assert CANARY not in shown_by(mask=EVERYTHING, request=request, response=response)


@pytest.mark.parametrize("switch", INPUT_SWITCHES)
def test_request_that_cannot_be_read_is_nowhere(switch: str) -> None:
    """What is not JSON is hidden as well."""
    shown = shown_by(switch, request={}, request_body=f'{{"a": "{CANARY}'.encode())
    assert CANARY not in shown


@given(VALUES, st.sampled_from(["image_url", "input_image", "image"]))
def test_hidden_images_are_nowhere(image: Any, kind: str) -> None:
    """Whatever an image part holds, hidden images hide it; the text beside it stays."""
    part = {"type": kind, "image_url": image, "url": image}
    request = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, part]}]}
    shown = shown_by("hide_input_images", request=request)
    assert CANARY not in shown
    assert "Hi" in shown


@given(VALUES)
def test_hidden_tools_and_parameters_are_nowhere(value: Any) -> None:
    """Neither their own attributes nor the raw request tells of them; the messages stay."""
    request = {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"function": {"name": value}}, value],
        "functions": value,
        "stop": value,
    }
    shown = shown_by("hide_llm_tools", "hide_llm_invocation_parameters", request=request)
    assert CANARY not in shown
    assert "Hi" in shown


@given(REQUESTS, ANSWERS)
def test_nothing_hidden_changes_nothing(request: dict[str, Any], answer: dict[str, Any]) -> None:
    """Without switches the attributes are equal, their order too."""
    response = decode_response(json.dumps(answer).encode())
    attributes = build_exchange_attributes(make_exchange(request, response=response))
    for mask in (OPEN, mask_of(redaction=Redaction({}, ready_made=READY_MADE))):
        masked = mask.attributes(attributes)
        assert list(masked.items()) == list(attributes.items())


@given(VALUES.map(lambda value: json.dumps(value).replace(CANARY, "user\\u0040x.example")))
def test_patterns_find_canaries_everywhere(text: str) -> None:
    """What a pattern finds is in no attribute, escaped or not."""
    value = decode_json(text)
    request = {"messages": [{"role": "user", "content": value, "tool_calls": [value]}], "a": value}
    mask = mask_of(redaction=Redaction({}, ready_made=["email"]))
    body = json.dumps(request).replace("@", "\\u0040").encode()
    assert "x.example" not in shown_by(mask=mask, request=request, request_body=body)
