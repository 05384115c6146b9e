"""``proxy.upstream.passes``: base URLs that travel in a path."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from proxy.upstream.passes import read_pass, write_pass
from telemetry.observing.encryption import KEY_BYTES, Cipher

CIPHER, OTHER = Cipher(b"a" * KEY_BYTES), Cipher(b"b" * KEY_BYTES)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=100))
def test_who_wrote_a_pass_reads_it(url: str) -> None:
    """Nobody else does, and the URL is not seen in it."""
    text = write_pass(url, CIPHER)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", text)
    assert read_pass(text, CIPHER) == url
    assert read_pass(text, OTHER) is None


@given(st.text(max_size=200), st.data())
def test_whatever_else_is_no_pass(text: str, data: st.DataObject) -> None:
    """Neither any text, nor a pass with one letter changed, nor another encrypted text."""
    assert read_pass(text, CIPHER) is None
    whole = write_pass("https://api.example/v1", CIPHER)
    at = data.draw(st.integers(0, len(whole) - 2))  # the last letter has bits that say nothing
    letter = data.draw(st.sampled_from("AZaz09-_").filter(lambda it: it != whole[at]))
    assert read_pass(whole[:at] + letter + whole[at + 1 :], CIPHER) is None
