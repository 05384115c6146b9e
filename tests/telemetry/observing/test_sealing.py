"""What is sealed tells nothing, and opens with its own key alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telemetry.observing.sealing import KEY_BYTES, Seal

SEAL = Seal(b"a" * KEY_BYTES)


@given(st.binary(max_size=500))
def test_what_is_sealed_opens_with_its_key(text: bytes) -> None:
    """What is sealed opens with the same key, and with no other."""
    sealed = SEAL.close(text)
    assert SEAL.open(sealed) == text
    assert Seal(b"b" * KEY_BYTES).open(sealed) is None
    assert SEAL.open(sealed[:-1]) is None


def test_texts_that_differ_in_a_byte_are_mixed_with_other_bytes() -> None:
    """Else two of them would tell where."""
    text = bytes(200)
    one, other = SEAL.close(text), SEAL.close(text[:-1] + b"\x01")
    same = sum(first == second for first, second in zip(one, other, strict=True))
    assert same < 20
    assert SEAL.close(bytes(200)) == one
