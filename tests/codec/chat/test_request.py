"""A request body as a view."""

from __future__ import annotations

import json

import pytest

from codec.chat.request import decode_request
from codec.errors import MalformedRequest


def test_a_request_is_read_as_it_is() -> None:
    """Nothing is renamed, nothing is lost (``docs/contract/sources.md#s4-5``)."""
    request = decode_request(
        b'{"model":"m","stream":true,"messages":[{"role":"user","content":"q"}],"seed":42,'
        b'"tools":[{"type":"function"}],"functions":[],"stream_options":{"include_usage":false}}'
    )
    assert request.model == "m"
    assert request.stream
    assert request.messages == [{"role": "user", "content": "q"}]
    assert request.tools == [{"type": "function"}]


def test_parameters_are_all_but_messages_tools_and_functions() -> None:
    """``docs/contract/spans.md#invocation-parameters``, in the client's own order."""
    request = decode_request(
        b'{"tool_choice":"auto","messages":[],"tools":[],"functions":[],"model":"m","n":2,"x":null}'
    )
    assert list(request.parameters.items()) == [
        ("tool_choice", "auto"),
        ("model", "m"),
        ("n", 2),
        ("x", None),
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"model":null,"stream":"true","messages":{},"tools":"bad"}',
        b'{"model":"","stream":1,"messages":null,"tools":null}',
        b'{"model":["m"],"stream":[true],"messages":"hi","tools":{}}',
    ],
)
def test_members_of_the_wrong_type_count_as_absent(body: bytes) -> None:
    """No error: the upstream is the one to refuse them (``docs/contract/sources.md#s4-10``)."""
    request = decode_request(body)
    assert request.model is None
    assert not request.stream
    assert list(request.messages) == []
    assert list(request.tools) == []


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'"text"', b"null", b"{", b'{"a":1}}', b"\xff\xfe{}", b"[" * 100_000]
)
def test_a_body_that_is_no_json_object_is_malformed(body: bytes) -> None:
    """The one error that decoding a request has (``docs/contract/sources.md#s4-10``)."""
    with pytest.raises(MalformedRequest, match="request body: "):
        decode_request(body)


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("One.", ("One.",)),
        (["One.", "Two."], ["One.", "Two."]),
        ([1, 2, 3], ([1, 2, 3],)),
        ([[1, 2], [3]], [[1, 2], [3]]),
        (None, ()),
        ([], ()),
    ],
)
def test_prompts_are_told_from_token_ids(prompt: object, prompts: object) -> None:
    """A text is one prompt and so is a list of token ids; a list of either is several."""
    request = decode_request(json.dumps({"prompt": prompt, "n": 2}).encode())
    assert request.prompts == prompts
    assert request.parameters == {"n": 2}
