"""A body in blocks: parts of it are those of the whole."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from codec.chat.rewrite import REQUEST_MEMBERS, rewrite_request
from codec.text.blocks import Blocks
from codec.text.scan import scan_request
from codec.usage_option import UsagePolicy, leave_body

BLOCKS = st.lists(st.binary(min_size=1, max_size=5), max_size=6)


@given(BLOCKS, st.integers(0, 32), st.integers(0, 32))
def test_parts_are_those_of_the_whole(blocks: list[bytes], start: int, end: int) -> None:
    """Whatever lies between two offsets, past the end too."""
    body, whole = Blocks(blocks), b"".join(blocks)
    assert len(body) == len(whole)
    assert body[start:end] == whole[start:end]
    assert body[:] == whole
    assert b"".join(body.cut(start, min(end, len(whole)))) == whole[start:end]


def test_what_is_cut_is_not_copied() -> None:
    """A whole block is that object, a part of one is a view of it."""
    blocks = [b"abc", b"def", b"ghi"]
    first, second, third = Blocks(blocks).cut(1, 7)
    assert isinstance(first, memoryview)
    assert first.obj is blocks[0]
    assert second is blocks[1]
    assert isinstance(third, memoryview)
    assert third.obj is blocks[2]


@given(
    st.sampled_from(
        [
            b'{"stream":true,"model":"m"}',
            b'{"stream" : true,"stream_options":{}}',
            b'{"stream":true,"stream_options":{"include_usage":false}}',
            b'{"stream":true,"stream_options":null}',
            b'{"stream":true,"stream_options":{"include_usage":true}}',
            b'{"stream":true,"stream":true}',
            b'{"stream":false}',
            b"[]",
        ]
    ),
    st.sets(st.integers(1, 50)),
    st.sampled_from(UsagePolicy),
)
def test_a_body_in_blocks_is_rewritten_as_one_object_is(
    body: bytes, cuts: set[int], policy: UsagePolicy
) -> None:
    """The same bytes for the upstream, and the same said of them."""
    edges = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    blocks = Blocks([body[start:end] for start, end in pairwise(edges)])
    expected = rewrite_request(body, scan_request(body, REQUEST_MEMBERS), policy)
    rewrite = rewrite_request(blocks, scan_request(body, REQUEST_MEMBERS), policy)
    sent = b"".join((rewrite.body, *rewrite.more))
    assert sent == b"".join((expected.body, *expected.more))
    assert rewrite.size_bytes == len(sent)
    told = (rewrite.asked, rewrite.rewrites, rewrite.note)
    assert told == (expected.asked, expected.rewrites, expected.note)
    if not rewrite.rewrites:
        assert leave_body(blocks).more == rewrite.more == blocks.blocks
