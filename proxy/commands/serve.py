"""``spantap serve``: the proxy, from start to the last span."""

from __future__ import annotations

import asyncio
import logging
import os

from proxy.app import Proxy, build_upstreams
from proxy.clock import SystemClock
from proxy.commands.signals import ShutdownSignals
from proxy.file_limit import quieten_file_limit, raise_file_limit
from proxy.logs import set_up_logging
from proxy.settings import ConfigurationError, Settings
from proxy.span_settings import build_span_rules
from telemetry.errors import TelemetryError
from telemetry.in_process import InProcessPipeline
from telemetry.otel_environment import find_reason_for_no_spans
from telemetry.store_rows import Retention

__all__ = ("open_pipeline", "run_serve")

_log = logging.getLogger("spantap")

_DAY_NS = 24 * 3600 * 1_000_000_000

FLUSH_SECONDS = 5.0
"""How long the end waits for the backend; what is not sent stays in the store."""


def open_pipeline(settings: Settings) -> InProcessPipeline:
    """The observing half that the settings and the environment describe.

    Raises:
        ConfigurationError: the store or an ``OTEL_*`` variable cannot be used.
    """
    retention = Retention(
        max_age_ns=int(settings.store_max_age_days * _DAY_NS), max_bytes=settings.store_max_bytes
    )
    try:
        return InProcessPipeline.open(
            settings.store,
            retention=retention,
            rules=build_span_rules(settings, os.environ),
            environ=os.environ,
        )
    except TelemetryError as error:
        raise ConfigurationError(str(error)) from error


def run_serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; the exit status."""
    set_up_logging(settings.log_level)
    build_upstreams(settings)  # so that a wrong URL leaves no store behind
    pipeline = open_pipeline(settings)
    pipeline.start()
    raise_file_limit()
    flush_seconds = FLUSH_SECONDS
    try:
        if asyncio.run(_serve(settings, pipeline)):
            flush_seconds = 0.0
    finally:
        lost = pipeline.close(flush_seconds)
    return 1 if lost else 0


async def _serve(settings: Settings, pipeline: InProcessPipeline) -> bool:
    """Serve until told to end; whether it was told twice."""
    loop = asyncio.get_running_loop()
    quieten_file_limit(loop, SystemClock())
    proxy = Proxy(settings, pipeline, metrics=pipeline.pipeline.metrics)
    signals = ShutdownSignals(loop)
    await proxy.start()
    try:
        _announce(settings, proxy, pipeline)
        await signals.first.wait()
        _log.info(
            "going: readiness says no for %g s, then draining for up to %g s; "
            "a second signal ends at once",
            settings.linger_seconds,
            settings.drain_seconds,
        )
        await signals.unless_second(proxy.linger)
        await signals.unless_second(proxy.drain)
    finally:
        await proxy.close()
    return signals.is_second


def _announce(settings: Settings, proxy: Proxy, pipeline: InProcessPipeline) -> None:
    traffic, admin = (_url(*address) for address in (proxy.address, proxy.admin_address))
    _log.info("listening on %s, admin on %s", traffic, admin)
    for upstream in build_upstreams(settings):
        joined = f"{upstream.origin}{upstream.join('/v1/chat/completions')}"
        _log.info("%s/v1/chat/completions goes to %s", upstream.prefix, joined)
    if reason := find_reason_for_no_spans(os.environ):
        _log.warning("calls are relayed, and nothing is recorded: %s", reason)
        return
    where = (
        f"sent to {pipeline.pipeline.backend}"
        if pipeline.pipeline.backend
        else "kept there (no OTLP endpoint)"
    )
    _log.info("spans are recorded in %s and %s", settings.store, where)


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
