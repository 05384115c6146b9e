"""What is encrypted says nothing, and only its key decrypts it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telemetry.observing.encryption import KEY_BYTES, Cipher

CIPHER = Cipher(b"a" * KEY_BYTES)


@given(st.binary(max_size=500))
def test_what_is_sealed_opens_with_its_key(text: bytes) -> None:
    """The same key decrypts it, and no other does."""
    encrypted = CIPHER.encrypt(text)
    assert CIPHER.decrypt(encrypted) == text
    assert Cipher(b"b" * KEY_BYTES).decrypt(encrypted) is None
    assert CIPHER.decrypt(encrypted[:-1]) is None


def test_texts_that_differ_in_a_byte_are_mixed_with_other_bytes() -> None:
    """Else two of them would tell where."""
    text = bytes(200)
    one, other = CIPHER.encrypt(text), CIPHER.encrypt(text[:-1] + b"\x01")
    same = sum(first == second for first, second in zip(one, other, strict=True))
    assert same < 20
    assert CIPHER.encrypt(bytes(200)) == one
