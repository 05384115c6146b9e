"""Log probabilities of tokens, in the forms of chats and of legacy completions."""

from __future__ import annotations

from codec.token_logprobs import TokenLogprob, chat_logprobs, text_logprobs

SEVEN = TokenLogprob(token="seven", logprob=-1.5, alternatives=(("six", -0.5), ("two", -3.0)))
SIX = TokenLogprob(token="six", logprob=-0.5, alternatives=(("six", -0.5),))
ALONE = TokenLogprob(token="é", logprob=-0.1)


def test_the_chosen_token_is_among_the_alternatives() -> None:
    """It is added only where somebody asked (``docs/contract/sources.md#s0-9``)."""
    logprobs = chat_logprobs([SEVEN, SIX, ALONE], is_refusal=False)
    assert logprobs is not None
    assert logprobs["refusal"] is None
    entries = logprobs["content"]
    tops = [[(top["token"], top["logprob"]) for top in one["top_logprobs"]] for one in entries]
    assert tops == [[("six", -0.5), ("seven", -1.5), ("two", -3.0)], [("six", -0.5)], []]
    assert entries[2] == {"token": "é", "logprob": -0.1, "bytes": [195, 169], "top_logprobs": []}


def test_a_refusal_has_its_own() -> None:
    """As the API has them: under ``refusal``, and nothing under ``content``."""
    logprobs = chat_logprobs([ALONE], is_refusal=True)
    assert logprobs is not None
    assert logprobs["content"] is None
    assert [entry["token"] for entry in logprobs["refusal"]] == ["é"]


def test_a_lone_surrogate_has_bytes() -> None:
    """A token that is half a character breaks nothing."""
    logprobs = chat_logprobs([TokenLogprob(token="\ud83d", logprob=-0.2)], is_refusal=False)
    assert logprobs is not None
    assert logprobs["content"][0]["bytes"] == [237, 160, 189]


def test_the_legacy_form_is_a_list_for_each_member() -> None:
    """Offsets are counted in characters; alternatives are absent where nobody asked for any."""
    assert text_logprobs([SIX, ALONE], 4) == {
        "tokens": ["six", "é"],
        "token_logprobs": [-0.5, -0.1],
        "top_logprobs": [{"six": -0.5}, {}],
        "text_offset": [4, 7],
    }
    alone = text_logprobs([ALONE], 0)
    assert alone is not None
    assert alone["top_logprobs"] is None


def test_no_tokens_have_none() -> None:
    """Null, as where nobody asked."""
    assert chat_logprobs([], is_refusal=False) is None
    assert text_logprobs([], 0) is None
