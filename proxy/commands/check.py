"""``spantap check``: settings, upstreams and the OTLP endpoint, each probed and explained."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from proxy.app import build_client, build_upstreams
from proxy.configuration_error import ConfigurationError
from proxy.errors import GatewayError
from proxy.headers import RequestChanges, request_headers
from proxy.span_settings import build_span_rules
from proxy.upstream_client import UpstreamRequest
from telemetry.delivery import Verdict
from telemetry.errors import StoreError, StoreLocked, TelemetryError
from telemetry.exporter import open_sender
from telemetry.metrics.metrics_exporter import open_metrics_sender
from telemetry.metrics.metrics_settings import read_metrics_settings
from telemetry.otel_environment import check_otel_environment, find_reason_for_no_spans
from telemetry.otlp_settings import read_otlp_settings
from telemetry.store_lock import StoreLock
from telemetry.store_reader import StoreReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.routes import Upstream
    from proxy.settings import Settings
    from telemetry.delivery import Sender

__all__ = ("run_check",)

_PROBE = "/v1/models"
"""Costs nothing, and every OpenAI-compatible server has it or says 404."""


def run_check(
    settings: Settings, *, environ: Mapping[str, str] = os.environ, out: TextIO | None = None
) -> int:
    """Probe everything and explain; 0 if nothing was found wrong, else 1."""
    report = _Report(out or sys.stdout)
    report.good("settings", f"listening on {settings.host}:{settings.port} when served")
    _check_span_rules(settings, environ, report)
    _check_store(settings.store, report)
    asyncio.run(_check_upstreams(settings, report))
    _check_backend(environ, report)
    return 1 if report.found else 0


class _Report:
    """Lines of ``ok`` and ``bad``."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.found = False

    def good(self, what: str, words: str) -> None:
        self._out.write(f"ok    {what}: {words}\n")

    def bad(self, what: str, words: str) -> None:
        self.found = True
        self._out.write(f"bad   {what}: {words}\n")


def _check_span_rules(settings: Settings, environ: Mapping[str, str], report: _Report) -> None:
    """Whether what is said about spans can be followed, and what of it hides content."""
    try:
        rules = build_span_rules(settings, environ)
    except ConfigurationError as error:
        report.bad("spans", str(error))
        return
    if reason := find_reason_for_no_spans(environ):
        report.good("spans", f"nothing is recorded: {reason}")
        return
    hidden = [name for name, is_on in asdict(rules.privacy).items() if is_on is True]
    patterns = "" if rules.redaction is None else "; what the patterns find is hidden"
    if not settings.content:
        report.good("spans", f"no content is recorded{patterns}")
    elif hidden:
        report.good("spans", f"content is recorded, with {', '.join(hidden)}{patterns}")
    else:
        report.good("spans", f"all content is recorded{patterns}")


def _check_store(path: Path, report: _Report) -> None:
    """Whether ``serve`` could own it, found out without making anything."""
    if (obstacle := _find_obstacle(path)) is not None:
        hint = "mend that, or name another store with --store or SPANTAP_STORE"
        report.bad("store", f"{path} cannot be written: {obstacle}; {hint}")
        return
    exists = path.exists() and path.stat().st_size > 0
    try:
        if exists:
            StoreReader(path).close()
        if Path(f"{path}.lock").exists():
            StoreLock(path).release()
    except StoreLocked as error:
        holder = error.holder_pid or "another one"
        fine = "as it should be while `spantap serve` runs"
        report.good("store", f"{path} is in use by process {holder}, {fine}")
    except StoreError as error:
        report.bad("store", str(error))
    else:
        report.good("store", f"{path}" if exists else f"{path} will be made when served")


def _find_obstacle(path: Path) -> str | None:
    """What is in the way of writing a file, in its folder or where that would be made."""
    folder = path.parent.absolute()
    while not os.path.exists(folder):  # noqa: PTH110 - Path.exists raises below a closed folder
        folder = folder.parent
    if not folder.is_dir():
        return f"{folder} is no folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"the folder {folder} is not ours to write in"
    if path.exists() and not (path.is_file() and os.access(path, os.W_OK)):
        return "it is no file of ours"
    return None


async def _check_upstreams(settings: Settings, report: _Report) -> None:
    client = build_client(settings)
    try:
        for upstream in build_upstreams(settings):
            what = f"upstream {upstream.name!r}"
            joined = f"{upstream.origin}{upstream.join('/v1/chat/completions')}"
            report.good(what, f"{upstream.prefix}/v1/chat/completions goes to {joined}")
            request = UpstreamRequest(
                upstream=upstream,
                method="GET",
                target=upstream.join(_PROBE),
                headers=_probe_headers(upstream),
            )
            try:
                response = await client.send(request)
            except GatewayError as error:
                report.bad(what, error.message)
            else:
                report.good(what, _explain_status(response.status))
                response.close()
    finally:
        await client.close()


def _probe_headers(upstream: Upstream) -> list[tuple[bytes, bytes]]:
    changes = RequestChanges(host=upstream.host_header, replaced=upstream.credentials)
    return request_headers(((b"Accept", b"*/*"),), changes)


def _explain_status(status: int) -> str:
    if status in {401, 403}:
        return f"reachable (status {status}: it wants a key, which your client sends)"
    if status >= 500:
        return f"reachable, but it answers with status {status}"
    return f"reachable (status {status})"


def _check_backend(environ: Mapping[str, str], report: _Report) -> None:
    try:
        check_otel_environment(environ)
        spans, metrics = read_otlp_settings(environ), read_metrics_settings(environ)
    except TelemetryError as error:
        report.bad("OTLP", str(error))
        return
    if spans is None and environ.get("OTEL_TRACES_EXPORTER") == "none":
        report.good("OTLP", "OTEL_TRACES_EXPORTER is none: spans stay in the store")
    elif spans is None:
        report.good(
            "OTLP",
            "no endpoint: spans stay in the store, see `spantap traces`. To send them, set "
            "OTEL_EXPORTER_OTLP_ENDPOINT, for Phoenix http://localhost:6006",
        )
    else:
        _probe_backend("spans", open_sender(spans), report)
    if metrics is not None:
        _probe_backend("metrics", open_metrics_sender(metrics.otlp), report)


def _probe_backend(what: str, sender: Sender, report: _Report) -> None:
    try:
        answer = sender.send(b"")  # a request that holds nothing is a valid one
    finally:
        sender.close()
    if answer.verdict is Verdict.DELIVERED:
        report.good("OTLP", f"{sender.backend} takes {what}")
    else:
        hint = "check OTEL_EXPORTER_OTLP_ENDPOINT, _PROTOCOL and _HEADERS"
        if what == "metrics":
            hint = "check OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, or set OTEL_METRICS_EXPORTER=none"
        report.bad("OTLP", f"{sender.backend} does not take {what}: {answer.words}; {hint}")
