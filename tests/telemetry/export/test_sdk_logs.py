"""``telemetry.export.sdk_logs``: what OpenTelemetry's SDK logs holds no content."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.trace import TraceState

from telemetry.export.sdk_logs import quiet_sdk_logs

if TYPE_CHECKING:
    from collections.abc import Iterator

CANARY = "c4n4ry"


@pytest.fixture(autouse=True)
def _sdk_logger() -> Iterator[None]:
    """The SDK's logger as it was before.

    Tests quiet it themselves: before each, pytest adds its handler to loggers that do not hand on.
    """
    sdk = logging.getLogger("opentelemetry")
    before = sdk.propagate, sdk.handlers
    yield
    sdk.propagate, sdk.handlers = before


def test_a_clients_text_does_not_reach_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The SDK quotes a broken ``tracestate`` and an attribute's key: only its own words remain."""
    quiet_sdk_logs()
    TraceState([(f"{CANARY} !", CANARY)])
    BoundedAttributes(attributes={CANARY: {CANARY}})  # type: ignore[dict-item]  # not allowed
    assert len(caplog.records) == 2
    assert CANARY not in caplog.text
    text = caplog.records[0].getMessage()
    assert "at opentelemetry.trace.span:" in text
    assert text.endswith("Invalid key/value pair (..., ...) found.")
    assert {record.name for record in caplog.records} == {"spantap.telemetry"}


@pytest.mark.parametrize("name", ["opentelemetry", "opentelemetry.some.part"])
def test_neither_text_that_was_formatted_before_nor_an_exception_comes_out(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is not known to be fixed may hold content."""
    quiet_sdk_logs()
    logger = logging.getLogger(name)
    try:
        raise ValueError(CANARY)  # noqa: TRY301 - an exception with a traceback is wanted
    except ValueError:
        logger.exception(f"failed for {CANARY}")  # noqa: G004 - as a careless library would
    assert CANARY not in caplog.text
    assert caplog.records[0].levelname == "ERROR"
    assert caplog.records[0].exc_info is None


def test_each_line_of_code_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """No client can fill the log."""
    quiet_sdk_logs()
    for number in range(100):
        TraceState([(f"Bad {number}", "x")])
    assert len(caplog.records) == 1


def test_what_is_no_warning_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """Also where somebody has set the level lower."""
    quiet_sdk_logs()
    caplog.set_level(logging.DEBUG, "opentelemetry")
    logging.getLogger("opentelemetry.x").info("%s", CANARY)
    assert caplog.records == []


def test_quieting_again_does_not_double_the_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Several pipelines may be opened in one process."""
    quiet_sdk_logs()
    quiet_sdk_logs()
    logging.getLogger("opentelemetry.x").warning("%s", CANARY)
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("template", "arguments", "text"),
    [
        ("no %s of %d", ("a", 1), "no ... of ..."),
        ("%(name)s: %-5.1f%%, %*d, %.*s", ("a",), "...: ...%, ..., ..."),
        ("50%%s sure of %r", ("a",), "50%s sure of ..."),
        ("%#08lx|%+i|% d", (1, 2, 3), "...|...|..."),
        ("nothing to put", ("a",), "nothing to put"),
    ],
)
def test_an_ellipsis_stands_for_each_argument(
    template: str, arguments: tuple[object, ...], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What a reader of the log sees has no directives in it; an escaped per cent sign is one."""
    quiet_sdk_logs()
    logging.getLogger("opentelemetry.x").warning(template, *arguments)
    assert caplog.records[0].getMessage().endswith(f": {text}")
