"""``telemetry.export.otel_environment``: what the SDK could not follow is refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk import environment_variables
from opentelemetry.sdk.trace import SpanLimits, TracerProvider, sampling

from telemetry.errors import ConfigurationError
from telemetry.export.otel_environment import (
    LIMIT_VARIABLES,
    check_otel_environment,
    describe_sampler,
    find_reason_for_no_spans,
)

SAMPLER, ARGUMENT = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
COUNT = "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"


def is_followed(**environ: str) -> bool:
    """Whether an environment passes; what does not is refused with the name of a variable."""
    try:
        check_otel_environment(environ)
    except ConfigurationError as error:
        words = str(error)
    else:
        return True
    assert words.startswith(tuple(environ))
    assert "\n" not in words
    return False


def test_a_process_is_told_where_the_sdk_would_end_it() -> None:
    """The SDK cannot be imported with such a limit; the check can, and imports nothing of it."""
    code = (
        "import os, sys\n"
        "from telemetry.errors import ConfigurationError\n"
        "from telemetry.export.otel_environment import check_otel_environment\n"
        "try: check_otel_environment(os.environ)\n"
        "except ConfigurationError as error: print(error)\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)\n"
    )
    environ = os.environ | {COUNT: "abc"}

    def run(program: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program]
        return subprocess.run(command, check=False, capture_output=True, text=True, env=environ)

    checked = run(code)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout == f"{COUNT} is 'abc', but must be a whole number from 0 to {2**63 - 1}\n"
    assert "ValueError" in run("import opentelemetry.sdk.trace").stderr


def test_all_limits_of_spans_are_looked_at() -> None:
    """Those that the SDK names, but for those of log records."""
    names = {name for name in vars(environment_variables) if name.endswith("_LIMIT")}
    assert {name for name in names if "LOGRECORD" not in name} == set(LIMIT_VARIABLES)


@pytest.mark.parametrize("name", LIMIT_VARIABLES)
def test_limits(name: str) -> None:
    """Whole numbers from 0, with space around them; empty is none."""
    for value in ("0", "128", " 128 ", "", "  "):
        assert is_followed(**{name: value})
    for value in ("abc", "-1", "1.5", "1e3", "12 8", "9" * 5000):
        assert not is_followed(**{name: value})


@given(
    st.sampled_from(LIMIT_VARIABLES), st.text(st.characters(codec="ascii", exclude_characters="\0"))
)
def test_the_sdk_raises_for_no_limit_that_passes(name: str, value: str) -> None:
    """And is never refused what it would follow, but for numbers that no machine holds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name, value)
        try:
            SpanLimits()
        except ValueError:
            assert not is_followed(**{name: value})
        else:
            assert is_followed(**{name: value}) or int(value) >= 2**63


@pytest.mark.parametrize("value", [2**63 - 1, 2**63])
def test_a_span_can_be_made_with_every_limit_that_passes(
    value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK takes larger ones, and then fails at every span."""
    monkeypatch.setenv("OTEL_SPAN_EVENT_COUNT_LIMIT", str(value))
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("x")
    followed = is_followed(OTEL_SPAN_EVENT_COUNT_LIMIT=str(value))
    assert followed is (value < 2**63)
    if followed:
        tracer.start_span("s").add_event("e")
    else:
        with pytest.raises(OverflowError):
            tracer.start_span("s").add_event("e")


def test_samplers_are_those_that_the_sdk_knows() -> None:
    """In any case; another one would have been replaced by one that samples everything."""
    for name in sampling._KNOWN_SAMPLERS:
        assert is_followed(**{SAMPLER: name})
        assert is_followed(**{SAMPLER: name.upper()})
    for name in ("sometimes", "jaeger_remote", " always_off", "always_off "):
        assert not is_followed(**{SAMPLER: name})


@pytest.mark.parametrize("sampler", ["traceidratio", "parentbased_traceidratio", "TraceIdRatio"])
def test_a_ratio_is_a_number_from_0_to_1(sampler: str) -> None:
    """Any other would have been replaced by 1."""
    for ratio in ("0", "1", "0.25", " .5 ", "1e-3", "", "  "):
        assert is_followed(**{SAMPLER: sampler, ARGUMENT: ratio})
    for ratio in ("abc", "-0.1", "1.1", "50%", "nan", "inf"):
        assert not is_followed(**{ARGUMENT: ratio, SAMPLER: sampler})


@pytest.mark.parametrize("sampler", ["", "always_on", "parentbased_always_off"])
def test_an_argument_that_nobody_reads_is_not_looked_at(sampler: str) -> None:
    """As the SDK has it."""
    assert is_followed(**{SAMPLER: sampler, ARGUMENT: "endpoint=http://x"})


def test_an_empty_environment_is_followed() -> None:
    """Nothing has to be set."""
    assert is_followed()


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({}, None),
        ({"OTEL_SDK_DISABLED": "TRUE"}, "OTEL_SDK_DISABLED is true"),
        ({"OTEL_SDK_DISABLED": "false"}, None),
        ({SAMPLER: "always_off"}, "OTEL_TRACES_SAMPLER is always_off"),
        ({SAMPLER: "traceidratio", ARGUMENT: "0.0"}, "OTEL_TRACES_SAMPLER is traceidratio with 0"),
        ({SAMPLER: "traceidratio", ARGUMENT: "0.01"}, None),
        ({SAMPLER: "traceidratio"}, None),
        (
            {SAMPLER: "parentbased_always_off"},
            "OTEL_TRACES_SAMPLER is parentbased_always_off, except for calls of a sampled parent",
        ),
    ],
)
def test_what_turns_all_recording_off_is_known(environ: dict[str, str], reason: str | None) -> None:
    """So that nobody is told of spans that are never made."""
    assert find_reason_for_no_spans(environ) == reason


def test_rules_keep_calls_that_no_sampler_takes() -> None:
    """But none where all is switched off."""
    assert find_reason_for_no_spans({SAMPLER: "always_off"}, keeps=True) is None
    off = {"OTEL_SDK_DISABLED": "true"}
    assert find_reason_for_no_spans(off, keeps=True) == "OTEL_SDK_DISABLED is true"


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, None),
        ({SAMPLER: "Always_On"}, None),
        ({SAMPLER: "parentbased_always_on"}, None),
        ({SAMPLER: "parentbased_traceidratio", ARGUMENT: ""}, None),
        (
            {SAMPLER: "traceidratio", ARGUMENT: " .5 "},
            "OTEL_TRACES_SAMPLER is traceidratio with 0.5",
        ),
        ({SAMPLER: "always_off"}, "OTEL_TRACES_SAMPLER is always_off"),
    ],
)
def test_a_sampler_that_leaves_calls_out_is_described(
    environ: dict[str, str], words: str | None
) -> None:
    """With its ratio."""
    assert describe_sampler(environ) == words
