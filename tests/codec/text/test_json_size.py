"""``codec.text.json_size``: what decoding will take, told before it is done."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.text import json_size
from codec.text.json_size import decoded_bytes
from codec.text.jsontext import decode_json

COUNT = 20_000

SHAPES = {
    "empty lists": "[" + "[]," * COUNT + "0]",
    "empty objects": "[" + "{}," * COUNT + "0]",
    "objects of one member": "[" + '{"a":1},' * COUNT + "0]",
    "lists of one text": "[" + '["ab"],' * COUNT + "0]",
    "numbers": "[" + "1234567," * COUNT + "0]",
    "floats": "[" + "1.5," * COUNT + "0]",
    "short texts": "[" + '"ab",' * COUNT + "0]",
    "many names": "{" + ",".join(f'"k{n}":"v{n}"' for n in range(COUNT)) + "}",
    "messages": "[" + '{"role":"user","content":"hi"},' * COUNT + "0]",
    "deep lists": "[" + ("[" * 100 + "]" * 100 + ",") * (COUNT // 100) + "0]",
    "a text": '["' + "word " * COUNT + '"]',
    "a wide text": '["' + "word " * COUNT + '\N{GRINNING FACE}"]',
    "a text of escapes": '["' + "\\u4e2d" * COUNT + '"]',
    "an escaped wide character": '["' + "word " * COUNT + '\\ud83d\\ude00"]',
    "a text of another script": '["' + "\u4e2d" * COUNT + '"]',
}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_text_takes_more_than_it_was_said_to(shape: str) -> None:
    """Never less than what it takes; nor six times as much, or honest texts would be left out."""
    data = SHAPES[shape].encode()
    decode_json(data)
    tracemalloc.start()
    try:
        value = decode_json(data)
        taken_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert value
    assert taken_bytes <= decoded_bytes(data) <= 6 * taken_bytes + 1000


def test_what_is_inside_strings_is_no_value() -> None:
    """Long texts of code are not taken for many values."""
    code = '{"a": [1, 2, "\\" , \\\\"], "b": "[{,:"}\n' * 20_000
    data = json.dumps({"messages": [{"content": code}]}).encode()
    assert decoded_bytes(data) < 1.1 * len(data) + 1000


@given(st.recursive(st.text('\\"[{,:a\N{GRINNING FACE}'), st.lists), st.integers(1, 9))
def test_however_it_is_sliced_the_estimate_is_the_same(value: object, size_bytes: int) -> None:
    """An escape or a string may be in two slices."""
    data = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_size, "_UNLOOKED_BYTES", 0)
        whole = decoded_bytes(data)
        patch.setattr(json_size, "_SLICE_BYTES", size_bytes)
        assert decoded_bytes(data) == whole
