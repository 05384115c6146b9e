"""``spantap check``: settings, upstreams and the OTLP endpoint, each probed and explained."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, TextIO

from proxy.app import build_client, build_upstreams
from proxy.errors import GatewayError
from proxy.headers import RequestChanges, request_headers
from proxy.upstream import UpstreamRequest
from telemetry.delivery import Verdict
from telemetry.errors import TelemetryError
from telemetry.exporter import open_sender
from telemetry.otlp_settings import read_otlp_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.settings import Settings
    from proxy.upstreams import Upstream

__all__ = ("run_check",)

_PROBE = "/v1/models"
"""Costs nothing, and every OpenAI-compatible server has it or says 404."""


def run_check(
    settings: Settings, *, environ: Mapping[str, str] = os.environ, out: TextIO | None = None
) -> int:
    """Probe everything and explain; 0 if nothing was found wrong, else 1."""
    report = _Report(out or sys.stdout)
    report.good("settings", f"listening on {settings.host}:{settings.port} when served")
    report.good("store", f"{settings.store}")
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
        settings = read_otlp_settings(environ)
    except TelemetryError as error:
        report.bad("OTLP", str(error))
        return
    if settings is None:
        report.good(
            "OTLP",
            "no endpoint: spans stay in the store, see `spantap traces`. To send them, set "
            "OTEL_EXPORTER_OTLP_ENDPOINT, for Phoenix http://localhost:6006",
        )
        return
    sender = open_sender(settings)
    try:
        answer = sender.send(b"")  # a request without spans is a valid one
    finally:
        sender.close()
    if answer.verdict is Verdict.DELIVERED:
        report.good("OTLP", f"{sender.backend} takes spans")
    else:
        hint = "check OTEL_EXPORTER_OTLP_ENDPOINT, _PROTOCOL and _HEADERS"
        report.bad("OTLP", f"{sender.backend} does not take spans: {answer.words}; {hint}")
