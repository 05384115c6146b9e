"""``proxy.settings.spans``: what settings and environment say about every span."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from proxy.settings.settings import Settings
from proxy.settings.spans import SpanSettings, build_span_rules, hides_content
from telemetry.errors import ConfigurationError
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.keep_rules import KeepReason, KeepRules
from telemetry.spans.rules import SpanNaming, SpanRules
from telemetry.spans.value_texts import ValueForm
from tests.telemetry.exchanges import make_exchange

if TYPE_CHECKING:
    from telemetry.attribute_values import AttributeValue


def build(environ: dict[str, str] | None = None, **settings: Any) -> SpanRules:
    """The rules of some settings and an environment."""
    return build_span_rules(SpanSettings.of(Settings(**settings)), environ or {})


def test_by_default_all_content_is_recorded_and_costs_are_told() -> None:
    """Nothing is hidden but long images, and vectors of embeddings."""
    rules = build()
    assert rules.privacy == PrivacySwitches()
    assert rules.redaction is None
    assert rules.pricing is not None
    assert rules.values is ValueForm.TEXT
    assert not rules.shows_vectors
    assert not rules.hides_bodies
    assert not rules.keep


def test_settings_reach_the_rules() -> None:
    """Each where it belongs."""
    rules = build(
        span_name="genai",
        values="json",
        headers={"x-chat": "session.id"},
        record_headers=("none",),
        keep=["slow"],
        keep_slow_seconds=5,
        max_value_bytes=2048,
        max_span_bytes=100_000,
        cost=False,
    )
    assert rules.naming is SpanNaming.GENAI
    assert rules.values is ValueForm.JSON
    assert rules.headers.target("x-chat") == "session.id"
    assert not rules.allowed_fields.names_asked
    assert rules.keep == KeepRules(reasons=frozenset({KeepReason.SLOW}), slow_seconds=5)
    assert (rules.sizes.value_bytes, rules.sizes.span_bytes) == (2048, 100_000)
    assert rules.pricing is None


def test_genai_content_is_asked_for_by_the_standard_variable() -> None:
    """``docs/contract/spans.md#genai-messages``: it is off by default."""
    assert not build().shows_genai_content
    assert build(
        {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"}
    ).shows_genai_content


@pytest.mark.parametrize(
    "variable",
    ["OPENINFERENCE_HIDE_INPUTS", "OPENINFERENCE_HIDE_LLM_INVOCATION_PARAMETERS"],
)
def test_hidden_requests_are_hidden_everywhere(variable: str) -> None:
    """Nothing is taken from their bodies either."""
    assert build({variable: "true"}).hides_bodies


def test_content_is_turned_off_by_one_setting() -> None:
    """As if every switch were on; the limit of images stays the user's."""
    rules = build({"OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH": "7"}, content=False)
    assert rules.privacy.hides_input_messages
    assert rules.privacy.hides_output_messages
    assert rules.privacy.base64_image_max_length == 7
    assert rules.hides_bodies


def test_patterns_are_looked_for() -> None:
    """Ready-made ones and the user's own."""
    rules = build(redact="email, card", redact_patterns={"ticket": "T-[0-9]+"})
    text = rules.mask(make_exchange()).text("mail a@b.example about T-12")
    assert text == "mail __REDACTED__ about __REDACTED__"


def test_vectors_are_shown_where_the_switch_says_so() -> None:
    """The one switch that is on unless it says ``false``."""
    off = {"OPENINFERENCE_HIDE_EMBEDDINGS_VECTORS": "false"}
    assert build(off).shows_vectors
    assert not build({**off, "OPENINFERENCE_HIDE_OUTPUTS": "true"}).shows_vectors
    assert not build(off, content=False).shows_vectors


@pytest.mark.parametrize(
    ("environ", "settings", "words"),
    [
        ({"OPENINFERENCE_HIDE_INPUTS": "yes"}, {}, "OPENINFERENCE_HIDE_INPUTS is 'yes'"),
        ({}, {"redact": "phone"}, "phone"),
        ({}, {"redact_patterns": {"odd": "("}}, "odd"),
        ({}, {"prices": [{"model": "m"}]}, "setting 'price': the price of 'm' has no rate"),
    ],
)
def test_what_cannot_be_followed_ends_the_start(
    environ: dict[str, str], settings: dict[str, Any], words: str
) -> None:
    """In a sentence that names it."""
    with pytest.raises(ConfigurationError, match=words):
        build(environ, **settings)


def test_a_call_whose_client_turned_content_off_is_masked_whole() -> None:
    """Whatever the settings say."""
    rules = build()
    shown: dict[str, AttributeValue] = {"input.value": "secret", "llm.model_name": "m"}
    assert rules.mask(make_exchange()).attributes(shown) == shown
    hidden = rules.mask(make_exchange(hides_content=True)).attributes(shown)
    assert hidden == {"input.value": "__REDACTED__", "llm.model_name": "m"}


@pytest.mark.parametrize(
    ("settings", "environ"),
    [
        ({"content": False}, {}),
        ({"redact": ["email"]}, {}),
        ({"redact_patterns": {"ticket": "T-[0-9]+"}}, {}),
        *(
            ({}, {f"OPENINFERENCE_{field.name.upper()}": "true"})
            for field in fields(PrivacySwitches)
            if field.name.startswith("hide_")
        ),
    ],
    ids=str,
)
def test_what_hides_anything_is_known(settings: dict[str, Any], environ: dict[str, str]) -> None:
    """Then nothing may wait on a disk; how long an image may be hides nothing."""
    assert hides_content(Settings(**settings), environ)
    assert not hides_content(Settings(), {"OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH": "10"})
