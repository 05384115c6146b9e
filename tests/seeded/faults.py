"""The faults that tests must notice."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ("FAULTS", "Fault")


class Fault(NamedTuple):
    """A line of the product, and a wrong one in its place.

    Attributes:
        line: it stands once in the product, in whatever module.
        turned: the wrong one.
        tests: which tests notice it, as pytest has them.
    """

    line: str
    turned: str
    tests: str


FAULTS: tuple[Fault, ...] = (
    Fault(
        "if (own := self._forgettable.pop(number, None)) is not None:",
        "if (own := self._forgettable.pop(number, None)) is None:",
        "tests/telemetry/frames",
    ),
    Fault(
        "if finish is not None:",
        "if finish is None:",
        "tests/codec/dialects",
    ),
    Fault(
        "if response is not None and response.error is not None:",
        "if response is None and response.error is not None:",
        "tests/telemetry/observing",
    ),
    Fault(
        "if (is_other and (is_created or has_ended)) or (is_created and has_ended):",
        "if (is_other or (is_created or has_ended)) or (is_created and has_ended):",
        "tests/codec/apis/responses",
    ),
    Fault(
        "call.is_continued = call.is_continued or not failed or call.failed_ns is not None",
        "call.is_continued = call.is_continued or not failed or call.failed_ns is None",
        "tests/telemetry/conversations",
    ),
    Fault(
        "return not value or (len(value) == 1 and _is_word(value[0]))",
        "return not value or (len(value) != 1 and _is_word(value[0]))",
        "tests/telemetry/spans/otlp",
    ),
    Fault(
        "if wanted.texts and is_given:",
        "if wanted.texts or is_given:",
        "tests/proxy",
    ),
    Fault(
        "if (position - escapes) % 2 == 0:",
        "if (position - escapes) % 2 != 0:",
        "tests/codec/values",
    ),
    Fault(
        "if kind == _DELTA:",
        "if kind != _DELTA:",
        "tests/codec/apis",
    ),
    Fault(
        "if encoding is not None:",
        "if encoding is None:",
        "tests/proxy/downstream",
    ),
    Fault(
        "if protocol is OtlpProtocol.GRPC and client_certificate and not client_key:",
        "if protocol is OtlpProtocol.GRPC or client_certificate and not client_key:",
        "tests/telemetry/export",
    ),
    Fault(
        "return next((c.message for c in choices if c.index == choice_index), None)",
        "return next((c.message for c in choices if c.index != choice_index), None)",
        "tests/codec/events",
    ),
    Fault(
        "return _find_named(inferred) if inferred and inferred not in _LOOSE_DOMAINS else None",
        "return _find_named(inferred) if inferred or inferred not in _LOOSE_DOMAINS else None",
        "tests/telemetry/pricing",
    ),
    Fault(
        "if pieces is None and self.budget.reserve(MEMBER_BYTES):",
        "if pieces is None or self.budget.reserve(MEMBER_BYTES):",
        "tests/codec/apis/ollama",
    ),
    Fault(
        "if length is not None:",
        "if length is None:",
        "tests/proxy",
    ),
    Fault(
        "if scanner is not None:",
        "if scanner is None:",
        "tests/proxy/relay",
    ),
    Fault(
        "if head is not None:",
        "if head is None:",
        "tests/telemetry/finding",
    ),
    Fault(
        "if status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode) and is_held(path):",
        "if status.st_uid != os.geteuid() and stat.S_ISREG(status.st_mode) and is_held(path):",
        "tests/proxy",
    ),
    Fault(
        "return {k: value for k, value in self._raw.items()"
        " if k not in known and value is not None}",
        "return {k: value for k, value in self._raw.items() if k not in known and value is None}",
        "tests/codec/wire",
    ),
    Fault(
        "of_minutes = is_all and by in _GROUPS_OF_MINUTES",
        "of_minutes = is_all or by in _GROUPS_OF_MINUTES",
        "tests/telemetry/store",
    ),
)
