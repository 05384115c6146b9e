"""All that is hidden, in one: against the reference, and one by one."""

from __future__ import annotations

import json
from dataclasses import fields
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openinference.instrumentation import TraceConfig

from codec.text.jsontext import decode_json
from telemetry.attribute_values import clean_attributes, json_text
from telemetry.privacy.json_strings import REDACTED
from telemetry.privacy.mask import Mask
from telemetry.privacy.redaction import READY_MADE, Redaction
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.otlp.attributes import WrittenAttributes
from tests.telemetry.privacy.masks import EVERYTHING, OPEN, mask_of
from tests.telemetry.privacy.spans import CHAT, COMPLETION, EMBEDDING, IMAGE, PNG

if TYPE_CHECKING:
    from telemetry.attribute_values import AttributeValue

SWITCHES = [field.name for field in fields(PrivacySwitches) if field.name.startswith("hide_")]
LONG_IMAGE = "data:image/png;base64," + "iVBORw0KGgo" * 4_000
IMAGE_KEY = "llm.input_messages.0.message.contents.0.message_content.image.image.url"


def reference_of(*switches: str) -> TraceConfig:
    flags: dict[str, Any] = {name: name in switches for name in SWITCHES}
    return TraceConfig(**flags)


LIMIT = 40
URL = "data:image/png;base64,"
# A piece of a text: some of an image, plain, in other letters, or escaped.
pieces = st.sampled_from(
    [URL, URL.upper(), "iVBORw0KGgo" * 3, "\\u0064ata:image/png;base64,", "é ", "a"]
)
texts = st.lists(pieces, max_size=5).map("".join)


def may_change(mask: Mask, attributes: dict[str, Any]) -> bool:
    written = WrittenAttributes(attributes)
    return mask.may_change(written.whole, written.over)


@given(st.dictionaries(st.sampled_from("abc"), texts | st.lists(texts).map(tuple) | st.integers()))
def test_what_holds_no_long_image_is_shown_as_it_is(attributes: dict[str, Any]) -> None:
    """What a look at the written attributes promises is what a search comes to."""
    mask = Mask(PrivacySwitches(base64_image_max_length=LIMIT))
    clean, _ = clean_attributes(attributes.items())
    if not may_change(mask, attributes):
        assert mask.attributes(clean) == clean
    assert not may_change(mask, {"a": "x" * 99, "b": URL})


# Against the reference.

SAMPLES: dict[str, AttributeValue] = {
    **CHAT,
    **COMPLETION,
    **EMBEDDING,
    IMAGE_KEY: LONG_IMAGE,
    "output.images.0.image.url": PNG,
}


@pytest.mark.parametrize(
    "switches", [*combinations(SWITCHES, 0), *combinations(SWITCHES, 1), *combinations(SWITCHES, 2)]
)
def test_what_the_reference_hides_is_hidden(switches: tuple[str, ...]) -> None:
    """For every switch and key: dropped where it drops, dropped or redacted where it redacts."""
    reference = reference_of(*switches)
    together = mask_of(*switches).attributes(SAMPLES)
    for key, value in SAMPLES.items():
        alone = mask_of(*switches).attributes({key: value})
        wanted = reference.mask(key, value)
        for shown in (alone.get(key), together.get(key)):
            if wanted is None:
                assert shown is None, key
            elif wanted == REDACTED:
                assert shown in {None, REDACTED}, key


def test_what_nobody_hides_is_as_with_the_reference() -> None:
    """Without a switch both leave everything as it is, but for images over the limit."""
    reference = reference_of()
    for attributes in (CHAT, COMPLETION, EMBEDDING):
        assert OPEN.attributes(attributes) == attributes
        assert {key: reference.mask(key, value) for key, value in attributes.items()} == attributes


# One by one.


@pytest.mark.parametrize("value", [json.dumps({"a": LONG_IMAGE}), LONG_IMAGE])
def test_long_images_are_hidden_in_every_text(value: str) -> None:
    """The limit holds for raw values, GenAI content and single messages."""
    keys = [IMAGE_KEY, "input.value", "output.value", "gen_ai.input.messages", "metadata"]
    masked = OPEN.attributes(dict.fromkeys(keys, value))
    assert masked == dict.fromkeys(keys, value.replace(LONG_IMAGE, REDACTED))


def test_limit_is_the_switches() -> None:
    """The limit of the environment, not the default."""
    attributes: dict[str, AttributeValue] = {IMAGE_KEY: PNG, "input.value": json.dumps([PNG])}
    assert OPEN.attributes(attributes) == attributes
    mask = Mask(PrivacySwitches(base64_image_max_length=len(PNG) - 1))
    assert mask.attributes(attributes) == {IMAGE_KEY: REDACTED, "input.value": f'["{REDACTED}"]'}


def test_no_limit_shows_every_image() -> None:
    """A limit above all lengths hides none."""
    mask = Mask(PrivacySwitches(base64_image_max_length=10**9))
    assert mask.attributes({IMAGE_KEY: LONG_IMAGE}) == {IMAGE_KEY: LONG_IMAGE}


def test_patterns_hold_for_every_text_but_fixed_words() -> None:
    """Texts and lists of texts; kinds and types stay whatever the pattern."""
    mask = mask_of(redaction=Redaction({"all": r"[a-zA-Z]+"}))
    fixed: dict[str, AttributeValue] = {
        "openinference.span.kind": "LLM",
        "llm.system": "openai",
        "llm.provider": "groq",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "groq",
        "input.mime_type": "application/json",
        "output.mime_type": "application/json",
        "server.port": 443,
        "gen_ai.request.stream": True,
        "embedding.embeddings.0.embedding.vector": (0.5,),
    }
    found: dict[str, AttributeValue] = {
        "tag.tags": ("blue", "7"),
        "user.id": "ann",
        "llm.input_messages.0.message.name": "ann",
        "metadata": '{"1": "ann", "2": 3}',
    }
    assert mask.attributes(fixed | found) == fixed | {
        "tag.tags": (REDACTED, "7"),
        "user.id": REDACTED,
        "llm.input_messages.0.message.name": REDACTED,
        "metadata": f'{{"1": "{REDACTED}", "2": 3}}',
    }


@pytest.mark.parametrize("side", ["input", "output"])
def test_type_goes_with_the_value(side: str) -> None:
    """A value that became the mark is not JSON any more."""
    mask = mask_of(redaction=Redaction({"card": r"\d{16}"}))
    attributes: dict[str, AttributeValue] = {
        f"{side}.value": "4111111111111111",
        f"{side}.mime_type": "application/json",
    }
    assert mask.attributes(attributes) == {f"{side}.value": REDACTED}


@pytest.mark.parametrize("switch", SWITCHES)
def test_provider_words_are_hidden_with_what_they_may_quote(switch: str) -> None:
    """With anything that a provider may quote; not with images or vectors alone."""
    words = "Your prompt 'Ann' is too long."
    kept = {
        "hide_input_images",
        "hide_embeddings_vectors",
        "hide_retrieval_documents",
    }
    assert mask_of(switch).provider_words(words) == (words if switch in kept else REDACTED)
    assert not mask_of(switch).provider_words("")


def test_provider_words_without_images() -> None:
    """With hidden images the words name no image, in JSON or not."""
    mask = mask_of("hide_input_images")
    assert mask.provider_words(f"Cannot load {IMAGE}.") == f"Cannot load {REDACTED}"
    body = json.dumps({"error": f"Bad URL '{PNG}' or '{IMAGE}'"}).replace("/", "\\/")
    error = f"Bad URL '{REDACTED}' or '{REDACTED}'"
    assert decode_json(mask.provider_words(body)) == {"error": error}


def test_provider_words_are_searched() -> None:
    """The limit of images and the patterns hold for what is left of them."""
    mask = mask_of(redaction=Redaction({}, ready_made=["api_key"]))
    body = json.dumps({"error": f"Incorrect API key provided: sk-{'a' * 20}", "got": LONG_IMAGE})
    shown = mask.provider_words(body)
    expected = {"error": f"Incorrect API key provided: {REDACTED}", "got": REDACTED}
    assert decode_json(shown) == expected


def test_other_texts_are_only_searched() -> None:
    """Our own words stay under every switch, but for what the patterns find."""
    redaction = Redaction({"host": "api.test"})
    mask = Mask(PrivacySwitches.everything(), redaction)
    assert mask.text("no connection to api.test") == f"no connection to {REDACTED}"
    assert EVERYTHING.text("no connection to api.test") == "no connection to api.test"


@given(
    st.dictionaries(
        st.sampled_from(sorted(SAMPLES)),
        st.text(alphabet='[]{}",:\\u0041 data:image/;base64é', max_size=40)
        | st.binary().map(lambda data: data.decode("utf-8", "replace"))
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats()
        | st.booleans()
        | st.lists(st.text(max_size=3), min_size=1, max_size=3).map(tuple),
        max_size=4,
    ),
    st.sets(st.sampled_from(SWITCHES)),
)
def test_nothing_is_raised(attributes: dict[str, AttributeValue], switches: set[str]) -> None:
    """Any value under any key and any switches, and every text can be encoded."""
    redaction = Redaction({}, ready_made=READY_MADE)
    masked = mask_of(*switches, redaction=redaction).attributes(attributes)
    assert masked.keys() <= attributes.keys()
    for value in masked.values():
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str):
                text.encode()


@pytest.mark.parametrize("switches", [(), ("hide_input_images", "hide_llm_tools"), SWITCHES])
def test_deep_nesting_is_harmless(switches: tuple[str, ...]) -> None:
    """JSON nested up to what a parser reads, and deeper."""
    redaction = Redaction({}, ready_made=READY_MADE)
    for depth in (90, 200, 500, 5_000):
        value = '{"image": [' * depth + f'"{LONG_IMAGE}"' + "]}" * depth
        attributes: dict[str, AttributeValue] = dict.fromkeys(SAMPLES, value)
        shown = mask_of(*switches, redaction=redaction).attributes(attributes)
        assert LONG_IMAGE not in str(json_text(shown))


@given(
    st.dictionaries(
        st.sampled_from(["input.value", "llm.input_messages.0.message.content", "tag.tags", "n"]),
        st.text(max_size=40)
        | st.just("data:image/png;base64," + "A" * 30)
        | st.integers()
        | st.lists(st.text(max_size=30)).map(tuple)
        | st.lists(st.floats(allow_nan=False)).map(tuple),
    )
)
def test_the_short_way_shows_what_the_long_one_shows(attributes: dict[str, Any]) -> None:
    """Where nothing is hidden and nothing is long, nothing is searched, and nothing is missed."""
    mask = Mask(PrivacySwitches(base64_image_max_length=25))
    assert mask.attributes(attributes) == mask._search_all(attributes)
