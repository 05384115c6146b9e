"""The privacy switches."""

from __future__ import annotations

from dataclasses import fields

import pytest
from openinference.instrumentation import TraceConfig
from openinference.instrumentation import config as reference

from telemetry.errors import ConfigurationError
from telemetry.privacy.switches import PrivacySwitches, read_privacy_switches

HIDE_NAMES = [field.name for field in fields(PrivacySwitches) if field.name.startswith("hide_")]


def test_nothing_is_hidden_by_default() -> None:
    """An environment without a switch hides nothing, and limits images as the reference does."""
    switches = read_privacy_switches({"PATH": "/bin", "OPENINFERENCE_PROJECT_NAME": "x"})
    assert switches == PrivacySwitches()
    assert not any(getattr(switches, name) for name in HIDE_NAMES)
    assert switches.base64_image_max_length == reference.DEFAULT_BASE64_IMAGE_MAX_LENGTH


def test_every_switch_of_the_reference_is_known() -> None:
    """Whatever ``OPENINFERENCE_HIDE_*`` the reference reads, we read."""
    names = [name for name in vars(reference) if name.startswith("OPENINFERENCE_HIDE_")]
    assert len(names) >= len(HIDE_NAMES)
    for name in names:
        switched = {read_privacy_switches({name: value}) for value in ("true", "false")}
        assert len(switched) == 2
    known = {field.name for field in fields(TraceConfig)}
    assert known >= set(HIDE_NAMES)


@pytest.mark.parametrize("name", HIDE_NAMES)
@pytest.mark.parametrize(
    ("value", "expected"), [("true", True), ("TRUE", True), ("False", False), ("", False)]
)
def test_switch_is_read(name: str, value: str, expected: bool) -> None:
    """True or false in any case, empty as not set."""
    switches = read_privacy_switches({f"OPENINFERENCE_{name.upper()}": value})
    assert switches == (PrivacySwitches(**{name: expected}) if value else PrivacySwitches())


@pytest.mark.parametrize("value", ["1", "yes", "on", " true", "tru\u0435", "none"])
def test_what_is_neither_true_nor_false_is_refused(value: str) -> None:
    """A value that cannot be followed does not record all."""
    with pytest.raises(ConfigurationError, match=r"OPENINFERENCE_HIDE_OUTPUTS is .* true or false"):
        read_privacy_switches({"OPENINFERENCE_HIDE_OUTPUTS": value})


def test_unknown_switch_is_refused() -> None:
    """A slip in the name does not record all."""
    with pytest.raises(ConfigurationError, match="OPENINFERENCE_HIDE_INPUT is not a switch"):
        read_privacy_switches({"OPENINFERENCE_HIDE_INPUT": "true"})


@pytest.mark.parametrize(
    ("old", "new", "hidden"),
    [
        ("true", "false", True),
        ("false", "true", True),
        ("true", "", True),
        ("false", "", False),
        ("", "false", False),
        ("", "", False),
    ],
)
def test_old_name_of_a_switch_counts(old: str, new: str, hidden: bool) -> None:
    """Where the old and the new name of one switch disagree, hidden wins."""
    environ = {
        "OPENINFERENCE_HIDE_EMBEDDING_VECTORS": old,
        "OPENINFERENCE_HIDE_EMBEDDINGS_VECTORS": new,
    }
    assert read_privacy_switches(environ) == PrivacySwitches(hide_embeddings_vectors=hidden)


def test_names_that_have_no_meaning_here_are_not_read() -> None:
    """Neither uploader nor GenAI switch changes or breaks anything."""
    environ = {
        "OPENINFERENCE_BLOB_UPLOADER": "x",
        "OPENINFERENCE_ENABLE_GENAI_SEMCONV": "perhaps",
    }
    assert read_privacy_switches(environ) == PrivacySwitches()


@pytest.mark.parametrize(("value", "limit"), [("0", 0), ("64000", 64_000), ("", 32_000)])
def test_image_limit_is_read(value: str, limit: int) -> None:
    """A whole number of characters; empty is the default."""
    switches = read_privacy_switches({"OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH": value})
    assert switches.base64_image_max_length == limit


@pytest.mark.parametrize("value", ["-1", "32k", "1e5", " 5", "٣", "9" * 5_000])
def test_bad_image_limit_is_refused(value: str) -> None:
    """What is no length is refused, with the variable's name."""
    with pytest.raises(ConfigurationError, match="OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH is"):
        read_privacy_switches({"OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH": value})


def test_everything_is_every_switch() -> None:
    """The value for content that is off altogether has all switches on."""
    everything = PrivacySwitches.everything()
    assert all(getattr(everything, name) for name in HIDE_NAMES)
    assert everything.base64_image_max_length == PrivacySwitches().base64_image_max_length


@pytest.mark.parametrize("name", ["hide_llm_tools", "hide_llm_invocation_parameters"])
def test_tools_and_parameters_can_be_kept_explicitly(name: str) -> None:
    """``docs/contract/spans.md#privacy``: they go with the inputs unless they are said to stay."""
    hidden = {"OPENINFERENCE_HIDE_INPUTS": "true"}
    kept = {**hidden, f"OPENINFERENCE_{name.upper()}": "false"}
    going, staying = read_privacy_switches(hidden), read_privacy_switches(kept)
    assert (going.hides_tools, going.hides_parameters) == (True, True)
    assert staying.hides_tools is (name != "hide_llm_tools")
    assert staying.hides_parameters is (name == "hide_llm_tools")
    assert staying.hides_input_messages
