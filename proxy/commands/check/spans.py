"""Checks what is recorded of a call, and whether the backend accepts it."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from codec.text.pictures import MAX_PICTURE_BYTES
from proxy.commands.check.findings import bad, good, note
from proxy.commands.store_command import describe_size
from proxy.settings.spans import SpanSettings, build_span_rules
from telemetry.errors import ConfigurationError, TelemetryError
from telemetry.export.delivery import Verdict
from telemetry.export.exporter import open_sender
from telemetry.export.metrics_exporter import read_metrics_settings
from telemetry.export.otel_environment import (
    check_otel_environment,
    describe_sampler,
    find_reason_for_no_spans,
)
from telemetry.export.settings import OtlpProtocol, read_otlp_settings
from telemetry.raw_answer import MAX_RAW_BYTES
from telemetry.spans.rules import RawPolicy
from telemetry.store.pictures import SHARE
from telemetry.store.raw_answers import SHARE as RAW_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy.commands.check.findings import Finding
    from proxy.settings.settings import Settings
    from telemetry.export.delivery import Sender
    from telemetry.export.settings import OtlpSettings
    from telemetry.spans.rules import SpanRules

_DOUBLED = re.compile(r"(/v1/(?:traces|metrics|logs))/v1/(?:traces|metrics)$")
"""A path that was appended to an endpoint that already had it, or the path of another signal."""

_UNSET = "unset it if that is not meant"


def check_content(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check that the settings of spans can be used, and say what they hide."""
    try:
        rules = build_span_rules(SpanSettings.of(settings), environ)
    except ConfigurationError as error:
        yield bad("content", str(error), "correct it; `spantap help settings` lists the values")
        return
    keep = ",".join(sorted(settings.keep))
    if reason := find_reason_for_no_spans(environ, keeps=bool(keep)):
        yield note("content", f"nothing is recorded: {reason}", _UNSET)
        return
    if sampler := describe_sampler(environ):
        kept = f"; of the others SPANTAP_KEEP keeps {keep}" if keep else ""
        yield note("content", f"only sampled calls are recorded: {sampler}{kept}", _UNSET)
    switches = asdict(rules.privacy).items()
    hidden = [name for name, is_on in switches if name.startswith("hide_") and is_on is True]
    patterns = "" if rules.redaction is None else "; what the patterns find is hidden"
    if not settings.content:
        yield good("content", f"no content is recorded{patterns}")
    elif hidden:
        yield good("content", f"content is recorded, with {', '.join(hidden)}{patterns}")
    else:
        yield good("content", f"all content is recorded{patterns}")
    yield good("pictures", _tell_pictures(settings, rules))
    yield good("raw", _tell_raw(settings, rules))


def _tell_raw(settings: Settings, rules: SpanRules) -> str:
    """Say of which calls the true bytes of answers are kept, and which setting says so."""
    if settings.raw is RawPolicy.OFF:
        return "no true bytes of answers are kept: SPANTAP_RAW is off"
    if not rules.keeps_raw_answers:
        return "no true bytes of answers are kept: the settings hide content"
    share = describe_size(settings.store_max_bytes // RAW_SHARE)
    calls = "failed calls" if settings.raw is RawPolicy.ERRORS else "calls"
    words = (
        f"the true bytes of the answers of {calls} are kept in the store up to"
        f" {MAX_RAW_BYTES >> 20} MiB each, and {share} together, a tenth of SPANTAP_STORE_MAX_BYTES"
    )
    return words if rules.redaction is None else f"{words}; none in which a pattern finds anything"


def _tell_pictures(settings: Settings, rules: SpanRules) -> str:
    """Say which pictures are kept, and which setting says so."""
    if not settings.pictures:
        return "none is kept for the page: SPANTAP_PICTURES is false"
    privacy = rules.privacy
    if privacy.hide_input_images or (privacy.hides_input_text and privacy.hides_output_text):
        return "none is kept: the settings hide them"
    share = describe_size(settings.store_max_bytes // SHARE)
    words = (
        f"kept for the page up to {MAX_PICTURE_BYTES >> 20} MiB each, and {share} together, a"
        " quarter of SPANTAP_STORE_MAX_BYTES"
    )
    if privacy.limits_images:
        limit = privacy.base64_image_max_length
        words += f"; none of more than OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH, {limit} characters"
    return words


def sends_spans(environ: Mapping[str, str]) -> bool:
    """Tell whether the settings name a backend for spans; false if they are wrong."""
    try:
        return read_otlp_settings(environ) is not None
    except TelemetryError:
        return False


def check_backend(environ: Mapping[str, str], *, other: str | None = None) -> Iterator[Finding]:
    """Check the backend for spans, and that for metrics if there is one.

    `other` says what is known about the environment of a running spantap, if there is one.
    """
    try:
        check_otel_environment(environ)
        spans, metrics = read_otlp_settings(environ), read_metrics_settings(environ)
    except TelemetryError as error:
        yield bad("OTLP", str(error), "correct it; `spantap help settings` lists the values")
        return
    if spans is not None:
        hint = "check OTEL_EXPORTER_OTLP_ENDPOINT, _PROTOCOL and _HEADERS"
        yield _probe("spans", spans, open_sender(spans), hint)
    elif environ.get("OTEL_TRACES_EXPORTER") == "none":
        yield good("OTLP", "OTEL_TRACES_EXPORTER is none: spans stay in the store")
    elif other is not None:
        mend = (
            "its log says at the start where spans go; "
            "to probe that, run `spantap check` in its environment"
        )
        yield note("OTLP", f"no endpoint in this environment; {other}", mend)
    else:
        yield good(
            "OTLP",
            "no endpoint: spans stay in the store, see `spantap traces`. To send them, set "
            "OTEL_EXPORTER_OTLP_ENDPOINT, for Phoenix http://localhost:6006",
        )
    if metrics is not None:
        hint = "check OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, or set OTEL_METRICS_EXPORTER=none"
        yield _probe("metrics", metrics.otlp, open_sender(metrics.otlp), hint)


def _probe(kind: str, settings: OtlpSettings, sender: Sender, hint: str) -> Finding:
    try:
        answer = sender.send(b"")  # an empty request is valid
    finally:
        sender.close()
    place = _place(settings)
    if doubled := _DOUBLED.search(place):
        hint = (
            f"the path is doubled, because it is appended to OTEL_EXPORTER_OTLP_ENDPOINT: leave "
            f"{doubled[1]} out of that, or put it into OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, which "
            f"is used as it is; else {hint}"
        )
        if answer.verdict is Verdict.DELIVERED:
            return note("OTLP", f"{place} accepts {kind}, though its path is doubled", hint)
    if answer.verdict is Verdict.DELIVERED and answer.words:
        return note("OTLP", f"{place} accepts {kind}, and says: {answer.words}", hint)
    if answer.verdict is Verdict.DELIVERED:
        return good("OTLP", f"{place} accepts {kind}")
    if answer.words.startswith("TLS: "):
        hint = "check OTEL_EXPORTER_OTLP_CERTIFICATE, or write http:// if TLS is not meant"
    return bad("OTLP", f"{place} does not accept {kind}: {answer.words}", hint)


def _place(settings: OtlpSettings) -> str:
    """Name the backend and the path, without query and user, which may be keys."""
    if settings.protocol is OtlpProtocol.GRPC:
        return settings.backend
    return settings.backend + urlsplit(settings.endpoint).path
