"""``codec.apis.ollama``: what a request asks for, and what is no request of Ollama's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.ollama.route import OLLAMA_CHAT, OLLAMA_EMBED, OLLAMA_GENERATE
from codec.apis.ollama.vectors import EmbedSaid, read_embedded
from codec.parts import Media, Message, Reasoning, ToolCall, ToolResult
from codec.text.jsontext import encode_json

if TYPE_CHECKING:
    from codec.apis.api import Api
    from codec.asked import Asked

CHAT = {"model": "m-1", "messages": []}
PNG, JPEG = "iVBORw0KGgoAAAA", "/9j/4AAQSkZJRg"


def ask(api: Api, body: Any) -> Asked:
    """The request, read."""
    return api.decode_asked(encode_json(body).encode(), "/api/chat")


def read(*messages: Any) -> list[Message]:
    """The messages of a chat, read."""
    return [*ask(OLLAMA_CHAT, {"messages": messages}).read_messages()]


@pytest.mark.parametrize(("said", "streams"), [({}, True), ({"stream": False}, False)])
@pytest.mark.parametrize("value", [None, True, 0, "no"])
def test_a_stream_is_the_default(said: dict[str, Any], value: object, *, streams: bool) -> None:
    """Nothing but ``false`` asks for none."""
    for api in (OLLAMA_CHAT, OLLAMA_GENERATE):
        assert ask(api, CHAT | said).stream is streams
        assert ask(api, CHAT | {"stream": value}).stream
        assert ask(api, {}).stream  # nothing is known of a body that is not kept
        assert not ask(api, {"model": 7, "stream": value}).stream
    assert not ask(OLLAMA_EMBED, {}).stream


def test_options_have_the_names_of_chat_completions() -> None:
    """Those beside ``options`` are passed over, as the server does."""
    options = {"temperature": 0.5, "top_p": 0.9, "top_k": 40, "seed": 7, "stop": ["a"]}
    asked = ask(
        OLLAMA_CHAT,
        CHAT
        | {"options": options | {"num_predict": 50, "num_ctx": 9}, "temperature": 2, "think": "low"}
        | {"format": "json"},
    )
    told = {**options, "num_predict": 50, "num_ctx": 9}
    expected = {"stream": True, "max_tokens": 50, "reasoning_effort": "low"}
    assert asked.options == told | expected | {"response_format": {"type": "json_object"}}


@pytest.mark.parametrize("count", [-1, -2, 0, None, "7", 1.5])
def test_an_answer_without_an_end_has_no_limit(count: object) -> None:
    """Nor has one whose limit is no count."""
    assert "max_tokens" not in ask(OLLAMA_CHAT, {"options": {"num_predict": count}}).options


@pytest.mark.parametrize(
    ("value", "kind"), [({"type": "object"}, "json_schema"), ("json", "json_object"), ("", None)]
)
def test_the_form_of_the_answer(value: object, kind: str | None) -> None:
    """A word, or a schema."""
    wanted = ask(OLLAMA_CHAT, {"format": value}).options.get("response_format", {})
    assert wanted.get("type") == kind


@pytest.mark.parametrize(
    ("api", "body", "is_ollamas"),
    [
        (OLLAMA_CHAT, CHAT, True),
        (OLLAMA_CHAT, {"messages": []}, False),
        (OLLAMA_CHAT, {"model": 7, "messages": []}, False),
        (OLLAMA_CHAT, {"model": "m-1", "messages": "Hi"}, False),
        (OLLAMA_CHAT, {"model": "m-1"}, False),
        (OLLAMA_GENERATE, {"model": "m-1"}, True),
        (OLLAMA_GENERATE, {"model": "m-1", "prompt": "Hi"}, True),
        (OLLAMA_GENERATE, {"model": "m-1", "prompt": ["Hi"]}, False),
        (OLLAMA_GENERATE, {"prompt": "Hi"}, False),
        (OLLAMA_EMBED, {"model": "m-1", "input": "Hi"}, True),
        (OLLAMA_EMBED, {"model": "m-1", "input": ["Hi"]}, True),
        (OLLAMA_EMBED, {"model": "m-1", "prompt": "Hi"}, True),
        (OLLAMA_EMBED, {"model": "m-1"}, False),
        (OLLAMA_EMBED, {"input": "Hi"}, False),
    ],
)
def test_a_body_of_another_shape_is_marked(
    api: Api, body: dict[str, Any], *, is_ollamas: bool
) -> None:
    """Programs of all kinds have an ``/api/chat`` (``docs/contract/apis.md#request-shape``)."""
    assert (ask(api, body).fault is None) is is_ollamas


def test_parameters_are_all_but_the_content() -> None:
    """A system prompt and a suffix shape what is said to a prompt."""
    generate = {"model": "m-1", "system": "s", "suffix": "x", "raw": True}
    content = {"prompt": "p", "context": [1], "images": [PNG]}
    assert ask(OLLAMA_GENERATE, generate | content).parameters == generate
    assert ask(OLLAMA_GENERATE, generate | content).read_texts() == ("p",)
    assert ask(OLLAMA_GENERATE, generate).read_texts() == ()
    chat = {"model": "m-1", "keep_alive": "5m", "think": True}
    assert ask(OLLAMA_CHAT, chat | {"messages": [], "tools": []}).parameters == chat


def test_messages_of_all_roles() -> None:
    """Thinking first, calls last; the name of a tool is its message's."""
    called = {"function": {"name": "f", "arguments": {"a": 1}}}
    assert read(
        {"role": "system", "content": "Be kind"},
        {"role": "assistant", "content": "Wait", "thinking": "Hm", "tool_calls": [called]},
        {"role": "tool", "content": "42", "tool_name": "f", "tool_call_id": "call_1"},
        {"role": "tool", "content": "43", "tool_name": "g"},
        {"role": "assistant", "content": "", "tool_calls": [called | {"id": "call_2"}, 7]},
        {"role": "user", "content": ""},
    ) == [
        Message("system", "Be kind"),
        Message(
            "assistant",
            (Reasoning(text="Hm"), "Wait", ToolCall(name="f", arguments='{"a":1}')),
        ),
        Message("tool", (ToolResult(id="call_1", content="42", value="42"),), "f"),
        Message("tool", (ToolResult(id=None, content="43", value="43"),), "g"),
        Message(
            "assistant",
            (ToolCall(id="call_2", name="f", arguments='{"a":1}'), ToolCall(type="")),
        ),
        Message("user"),
    ]


def test_images_are_urls_of_the_type_that_their_first_bytes_tell() -> None:
    """One of no known type has none, and no bytes either: it is whole in the body."""
    url = "https://x.example/a.png"
    images = [PNG, JPEG, "UklGRh", "R0lGODlh", url, "data:image/x;base64,aGk=", "aGk=", 7]
    [message] = read({"role": "user", "content": "Look", "images": images})
    text, *media = message.parts
    assert text == "Look"
    assert [one.url for one in media if isinstance(one, Media)] == [
        f"data:image/png;base64,{PNG}",
        f"data:image/jpeg;base64,{JPEG}",
        "data:image/webp;base64,UklGRh",
        "data:image/gif;base64,R0lGODlh",
        url,
        "data:image/x;base64,aGk=",
        None,
        None,
    ]


def test_a_thousand_images_are_counted() -> None:
    """Not all of them are read."""
    [message] = read({"role": "user", "content": "Look", "images": [PNG] * 1_500})
    assert (len(message.parts), message.part_count) == (1_025, 1_501)


@pytest.mark.parametrize("value", [7, None, "Hi", [], {"content": 7, "images": "x"}])
def test_what_is_no_message_says_nothing(value: object) -> None:
    """And raises nothing."""
    assert read(value) == [Message(None)]


def test_tools_on_offer() -> None:
    """As OpenAI has them; what is none has no type."""
    schema = {"type": "object"}
    function = {"name": "f", "description": "d", "parameters": schema}
    asked = ask(OLLAMA_CHAT, {"tools": [{"type": "function", "function": function}, 7]})
    tool, other = asked.read_tools()
    assert (tool.type, tool.title, tool.description, tool.parameters) == (
        "function",
        "f",
        "d",
        schema,
    )
    assert (other.type, other.value) == ("", 7)


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ({"input": "a"}, ["a"]),
        ({"input": ["a", "b"]}, ["a", "b"]),
        ({"prompt": "a"}, ["a"]),
        ({"input": [1, 2]}, [[1, 2]]),
        ({"input": []}, []),
        ({}, []),
    ],
)
def test_what_is_to_be_embedded(body: dict[str, Any], texts: list[Any]) -> None:
    """An ``input``, or a ``prompt`` of the elder path."""
    assert [*ask(OLLAMA_EMBED, body).read_texts()] == texts


@pytest.mark.parametrize(
    ("body", "vectors"),
    [
        ({"embeddings": [[0.5, 1], [2, 3]]}, [(0, (0.5, 1.0)), (1, (2.0, 3.0))]),
        ({"embedding": [0.5]}, [(0, (0.5,))]),
        (
            {"data": [{"index": 5, "embedding": [0.5]}, {"embedding": [2]}, 7]},
            [(5, (0.5,)), (1, (2.0,))],
        ),
        ({"embeddings": []}, []),
    ],
)
def test_vectors_of_each_form(
    body: dict[str, Any], vectors: list[tuple[int, tuple[float, ...]]]
) -> None:
    """Ollama's two, and OpenAI's, which gateways have below ``/api``."""
    answer = read_embedded(encode_json(body).encode())
    assert [(one.index, one.read()) for one in answer.vectors] == vectors
    assert answer.anomalies == ()


def test_counts_of_embeddings() -> None:
    """Of the prompt alone; OpenAI's object where that came."""
    ours = read_embedded(b'{"model": "m", "embeddings": [], "prompt_eval_count": 4}')
    assert ours.usage is not None
    assert (ours.model, ours.usage.prompt, ours.usage.total) == ("m", 4, None)
    theirs = read_embedded(b'{"data": [], "usage": {"prompt_tokens": 4, "total_tokens": 4}}')
    assert theirs.usage is not None
    assert (theirs.usage.prompt, theirs.usage.total) == (4, 4)


def test_an_answer_without_vectors_is_noted() -> None:
    """But for an error."""
    assert read_embedded(b"{}") == EmbedSaid(anomalies=("foreign_chunk",), body={})
    failed = read_embedded(b'{"error": "no"}')
    assert failed.error is not None
    assert (failed.error.message, failed.anomalies) == ("no", ())
