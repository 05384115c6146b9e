"""The splice that asks for usage, by policy."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.chat import rewrite as rewrite_module
from codec.chat.rewrite import (
    _MAX_COPIED_BYTES,
    MAX_STREAM_OPTIONS_BYTES,
    REQUEST_MEMBERS,
    USAGE_REWRITE,
    names_usage_option,
    rewrite_request,
)
from codec.text.jsontext import decode_json
from codec.text.scan import scan_request
from codec.usage_option import Rewrite, UsagePolicy
from tests.codec.text.test_scan import json_values, layouts

ALWAYS, IF_ABSENT, NEVER = UsagePolicy
INSERTED = b',"stream_options":{"include_usage":true}'


def rewrite(body: bytes, policy: UsagePolicy = ALWAYS) -> Rewrite:
    """Scan and rewrite a body in one go."""
    return rewrite_request(body, scan_request(body, REQUEST_MEMBERS), policy)


@pytest.mark.parametrize(
    ("options", "always"),
    [
        (b"null", b'{"include_usage":true}'),
        (b"{}", b'{"include_usage":true}'),
        (b"{ }", b'{"include_usage":true }'),
        (
            b'{ "include_obfuscation" : false }',
            b'{"include_usage":true, "include_obfuscation" : false }',
        ),
        (b'{"include_usage": false}', b'{"include_usage": true}'),
        (b'{"include_usage":null,"x":1}', b'{"include_usage":true,"x":1}'),
        (b'{"x":1,"include_usage" :"yes" }', b'{"x":1,"include_usage" :true }'),
        (b'{"include_us\\u0061ge":[{"a":"]"}]}', b'{"include_us\\u0061ge":true}'),
        (b'{"x":{"include_usage":true}}', b'{"include_usage":true,"x":{"include_usage":true}}'),
    ],
)
def test_options_that_do_not_ask_are_completed_by_always_alone(
    options: bytes, always: bytes
) -> None:
    """The table of ``docs/contract/spans.md#usage-policy``: other policies keep them verbatim.

    See also ``docs/contract/sources.md#s4-2``.
    """
    body = b'{"model":"m", "stream" : true ,"stream_options":%b, "n":1.0}'
    original = body % options
    assert rewrite(original) == Rewrite(
        body=body % always, asked=True, rewrites=("stream_options.include_usage",)
    )
    assert rewrite(original, IF_ABSENT) == Rewrite(body=original)
    assert rewrite(original, NEVER) == Rewrite(body=original)


def test_absent_options_are_inserted_by_both_asking_policies() -> None:
    """Behind the value of ``stream``; every other byte stays, and all of them with ``never``.

    See ``docs/contract/sources.md#s4-4`` and ``docs/contract/sources.md#s4-t16``.
    """
    raw = b'{"seed": 7, "temperature":1.0,"vendor_x":{"b":1,"a":2},"stream":true}'
    expected = Rewrite(body=raw[:-1] + INSERTED + b"}", asked=True, rewrites=(USAGE_REWRITE,))
    assert rewrite(raw) == expected
    assert rewrite(raw, IF_ABSENT) == expected
    assert rewrite(raw, NEVER) == Rewrite(body=raw)


@pytest.mark.parametrize("policy", UsagePolicy)
@pytest.mark.parametrize("stream", [b"true", b"false"])
def test_a_client_that_asks_is_left_as_it_is(stream: bytes, policy: UsagePolicy) -> None:
    """Rule 4: nothing is changed, and the client's stream is not to be filtered."""
    raw = b'{"stream":%b,"stream_options":{"include_usage" : true}}' % stream
    assert rewrite(raw, policy) == Rewrite(body=raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model":"m"}',
        b'{"stream":false}',
        b'{"stream":null}',
        b'{"stream":"true","messages":[]}',
        b'{"stream":1}',
        b'{"stream":[true]}',
        b'{"stream":trueish}',
        b'{"Stream":true}',
        b'{"messages":[{"stream":true}]}',
        b'{"stream":false,"stream_options":{"include_usage":false}}',
        b"{}",
    ],
)
@pytest.mark.parametrize("policy", UsagePolicy)
def test_only_the_json_value_true_is_a_stream(raw: bytes, policy: UsagePolicy) -> None:
    """Rule 1: anything else goes out as it came, without a note.

    See ``docs/contract/sources.md#s4-1`` and ``docs/contract/sources.md#s4-3``.
    """
    assert rewrite(raw, policy) == Rewrite(body=raw)


@pytest.mark.parametrize(
    ("raw", "note"),
    [
        (b'{"stream":true,"data_sources":[]}', "data_sources"),
        (b'{"stream":true,"data_sources":null}', "data_sources"),
        (b'{"stream":true,"stream":true}', "duplicate_stream"),
        (
            b'{"stream":true,"stream_options":null,"stream_options":null}',
            "duplicate_stream_options",
        ),
        (b'{"stream":true,"stream_options":{},"stream_options":null}', "duplicate_stream_options"),
        (b'{"stream":true,"stream_options":"usage"}', "stream_options_not_an_object"),
        (b'{"stream":true,"stream_options":[]}', "stream_options_not_an_object"),
        (b'{"stream":true,"stream_options":nul}', "stream_options_not_an_object"),
        (b'{"stream":true,"stream_options":true}', "stream_options_not_an_object"),
        (b'{"stream":true,"stream_options":{"a" 1}}', "stream_options_malformed"),
        (
            b'{"stream":true,"stream_options":{"include_usage":true,"include_usage":false}}',
            "duplicate_include_usage",
        ),
        (b'[{"stream":true}]', "not_an_object"),
        (b'{"stream":true', "truncated"),
        (b'{"stream":true,"a":"\xff"}', "not_utf8"),
    ],
)
def test_what_cannot_be_rewritten_with_certainty_is_left_alone_and_noted(
    raw: bytes, note: str
) -> None:
    """Rules 1 and 3; where the policy asks for nothing there is nothing to note."""
    assert rewrite(raw) == Rewrite(body=raw, note=note)
    assert rewrite(raw, NEVER) == Rewrite(body=raw)


def test_options_of_absurd_length_are_not_looked_into() -> None:
    """The limit itself is still looked into, one byte more is left alone (R5)."""
    frame = b'{"stream":true,"stream_options":{"a":"%b"}}'
    longest = frame % (b"x" * (MAX_STREAM_OPTIONS_BYTES - len(b'{"a":""}')))
    longer = frame % (b"x" * (MAX_STREAM_OPTIONS_BYTES - len(b'{"a":""}') + 1))
    assert rewrite(longest).asked
    assert rewrite(longer) == Rewrite(body=longer, note="stream_options_too_long")


def test_an_unchanged_body_is_not_copied() -> None:
    """A 20 MB body that needs no rewrite costs nothing."""
    raw = b'{"stream":false}'
    assert rewrite(raw).body is raw


def decide_slowly(request: dict[str, Any], policy: UsagePolicy) -> dict[str, Any]:
    """What the upstream is to read, by ``docs/contract/promises.md#usage``, from parsed values."""
    options = request.get("stream_options")
    if request.get("stream") is not True or policy is NEVER or "data_sources" in request:
        return request
    if policy is IF_ABSENT and "stream_options" in request:
        return request
    if options is None:
        return request | {"stream_options": {"include_usage": True}}
    if not isinstance(options, dict):
        return request
    return request | {"stream_options": options | {"include_usage": True}}


options_values = (
    st.dictionaries(st.sampled_from(["include_usage", "x"]) | st.text(), json_values) | json_values
)
requests = st.fixed_dictionaries(
    {"stream": st.just(True) | json_values},
    optional={"stream_options": options_values, "a": json_values, 'Ω\n"': json_values},
) | st.dictionaries(st.sampled_from(["stream", "data_sources", "z"]), json_values)


@given(requests, layouts, st.sampled_from(UsagePolicy))
def test_the_upstream_reads_the_request_with_just_the_option_added(
    request: dict[str, Any], layout: dict[str, Any], policy: UsagePolicy
) -> None:
    """Rule 2: parsed, only the option differs; undone, the bytes are the client's again."""
    raw = json.dumps(request, **layout).encode("utf-8", "replace")
    request = decode_json(raw)
    result = rewrite(raw, policy)
    assert repr_of(decode_json(result.body)) == repr_of(decide_slowly(request, policy))
    assert result.asked == (result.body != raw) == bool(result.rewrites)
    prefix = common_prefix_size(raw, result.body)
    suffix = common_prefix_size(raw[prefix:][::-1], result.body[prefix:][::-1])
    taken = raw[prefix : len(raw) - suffix]
    put = result.body[prefix : len(result.body) - suffix]
    assert len(put) <= len(INSERTED)
    if taken:
        options = request["stream_options"]
        assert options is None or "include_usage" in options


def repr_of(value: Any) -> str:
    """Compare by text: NaN equals itself, and key order does not count."""
    return json.dumps(value, sort_keys=True)


def common_prefix_size(one: bytes, other: bytes) -> int:
    """How many bytes two strings begin with in common."""
    size = 0
    while size < min(len(one), len(other)) and one[size] == other[size]:
        size += 1
    return size


@pytest.mark.parametrize(
    ("body", "blamed"),
    [
        (b'{"error":{"message":"Unknown parameter: \'stream_options\'."}}', True),
        (b'{"detail":[{"loc":["body","stream_options","include_usage"]}]}', True),
        (b"include_usage is not supported", True),
        (b'{"error":{"message":"Unknown parameter: \'Stream-Options\'."}}', False),
        (b"", False),
    ],
)
def test_an_error_body_that_names_the_option_blames_it(body: bytes, blamed: bool) -> None:
    """The rule of ``docs/contract/promises.md#rejections``: case as sent."""
    assert names_usage_option(body) is blamed


@given(requests, layouts, st.sampled_from(UsagePolicy))
def test_rule_5_the_parts_of_a_large_body_are_what_a_small_one_would_be(
    request: dict[str, Any], layout: dict[str, Any], policy: UsagePolicy
) -> None:
    """The same bytes and the same findings; where nothing is changed there are no parts."""
    body = json.dumps(request, **layout).encode("utf-8", "replace")
    small = rewrite(body, policy)
    with mock.patch.object(rewrite_module, "_MAX_COPIED_BYTES", 0):
        large = rewrite(body, policy)
    joined = b"".join((large.body, *large.more))
    assert msgspec.structs.replace(large, body=joined, more=()) == small
    assert bool(large.more) is bool(large.rewrites)
    assert large.size_bytes == small.size_bytes == len(joined)


def test_rule_5_a_large_body_is_not_copied() -> None:
    """What surrounds the splice are views of the client's own object."""
    body = b'{"stream":true,"messages":"%b"}' % (b"x" * _MAX_COPIED_BYTES)
    before, text, after = rewrite(body).more
    assert isinstance(before, memoryview)
    assert isinstance(after, memoryview)
    assert before.obj is after.obj is body
    assert text == INSERTED
