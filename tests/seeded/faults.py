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
        "return len(plain) == len(new)",
        "return len(plain) != len(new)",
        "tests/telemetry/observing/test_heads.py",
    ),
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
        "tests/proxy/test_traces_filters.py tests/proxy/test_traces_command.py",
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
        "tests/proxy/test_headers.py tests/proxy/downstream",
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
        "tests/proxy/page",
    ),
    Fault(
        "return {k: value for k, value in self._raw.items()"
        " if k not in known and value is not None}",
        "return {k: value for k, value in self._raw.items() if k not in known and value is None}",
        "tests/codec/wire",
    ),
    Fault(
        "is_quick = where.is_plain and not is_bounded and summing.can_be_minutes(times, by, names)",
        "is_quick = not is_bounded and summing.can_be_minutes(times, by, names)",
        "tests/telemetry/reading",
    ),
    Fault(
        "if total is not None and total < (prompt or 0) + (completion or 0):",
        "if total is not None and total <= (prompt or 0) + (completion or 0):",
        "tests/codec/test_usage.py",
    ),
    Fault(
        "if self._error is None and any(choice.has_bad_arguments for choice in whole):",
        "if self._error is None or any(choice.has_bad_arguments for choice in whole):",
        "tests/codec/chat/test_accumulator.py",
    ),
    Fault(
        "if first == _ARRAY_END and self.in_array:",
        "if first == _ARRAY_END or self.in_array:",
        "tests/codec/text/test_json_stream.py",
    ),
    Fault(
        "return min(position + reach, len(data))",
        "return max(position + reach, len(data))",
        "tests/codec/text/test_scan.py",
    ),
    Fault(
        "if isinstance(tokens, list) and isinstance(numbers, list):",
        "if isinstance(tokens, list) or isinstance(numbers, list):",
        "tests/codec/compat/test_answers.py",
    ),
    Fault(
        "self.has_repeated = len(self.places) < len(raw_names)",
        "self.has_repeated = len(self.places) <= len(raw_names)",
        "tests/proxy/test_headers.py",
    ),
    Fault(
        "if first <= now + _SOON:",
        "if first > now + _SOON:",
        "tests/proxy/test_check_certificates.py",
    ),
    Fault(
        "if survey.pending and not sends:",
        "if survey.pending or not sends:",
        "tests/proxy/test_check_store.py",
    ),
    Fault(
        "was_in_chunks = self._is_chunked and body is not None and not body.is_whole",
        "was_in_chunks = self._is_chunked and body is not None and body.is_whole",
        "tests/proxy/downstream/test_request_parser.py",
    ),
    Fault(
        "is_first = now >= self._last_commit + PAUSE_SECONDS",
        "is_first = now < self._last_commit + PAUSE_SECONDS",
        "tests/proxy/processes/test_frame_intake.py",
    ),
    Fault(
        "if len(self._known) > MAX_REMEMBERED:",
        "if len(self._known) < MAX_REMEMBERED:",
        "tests/proxy/relay/test_rejections.py",
    ),
    Fault(
        "if self.client_key is not None and self.client_cert is None:",
        "if self.client_key is not None or self.client_cert is None:",
        "tests/proxy/settings/test_settings.py",
    ),
    Fault(
        "if is_much and self.fault is None and not self.is_over:",
        "if is_much and self.fault is not None and not self.is_over:",
        "tests/proxy/upstream/test_answer_parser.py",
    ),
    Fault(
        "if not self.sent and self.refused >= MAX_REFUSED:",
        "if not self.sent and self.refused > MAX_REFUSED:",
        "tests/telemetry/export/test_resending.py",
    ),
    Fault(
        "if rejected_spans > 0:",
        "if rejected_spans >= 0:",
        "tests/telemetry/export/test_delivery.py",
    ),
    Fault(
        "if series_count < MAX_SERIES:",
        "if series_count <= MAX_SERIES:",
        "tests/telemetry/metrics/test_registry.py",
    ),
    Fault(
        "start_ns=min(part.start_ns for part in parts),",
        "start_ns=max(part.start_ns for part in parts),",
        "tests/telemetry/metrics/test_snapshot.py",
    ),
    Fault(
        "return None if None in amounts else fsum(amounts)",
        "return None if None not in amounts else fsum(amounts)",
        "tests/telemetry/pricing/test_billing.py",
    ),
    Fault(
        "if says_so is None or (shows_others and not says_so):",
        "if says_so is None or (shows_others and says_so):",
        "tests/telemetry/privacy/test_head_credentials.py",
    ),
    Fault(
        "if self._count > MAX_KNOWN:",
        "if self._count < MAX_KNOWN:",
        "tests/telemetry/store/parts/test_piece_search.py",
    ),
    Fault(
        "if exchange.error_type is None and exchange.outcome not in _LEFT:",
        "if exchange.error_type is None or exchange.outcome not in _LEFT:",
        "tests/telemetry/recording",
    ),
)
