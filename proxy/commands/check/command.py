"""``spantap check``: probes and explains everything that the settings name.

It records, makes and changes nothing. The exit status is 1 if something is bad, else 0.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, TextIO

from proxy.commands.check.certificates import check_authority, check_certificates
from proxy.commands.check.costs import check_costs
from proxy.commands.check.findings import good, note, print_findings
from proxy.commands.check.ports import (
    check_file_limit,
    check_inbound_keys,
    check_intercept_port,
    check_page,
    check_ports,
    count_sent_spans,
)
from proxy.commands.check.spans import check_backend, check_content, sends_spans
from proxy.commands.check.store import check_store
from proxy.commands.check.upstreams import check_upstreams
from proxy.settings.variable_names import describe_unknown_names
from telemetry.errors import StoreError
from telemetry.store.lock import find_holder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy.commands.check.findings import Finding
    from proxy.settings.settings import Settings


def run_check(
    settings: Settings, *, environ: Mapping[str, str] = os.environ, out: TextIO | None = None
) -> int:
    """Probe everything and explain it; return the exit status."""
    return 1 if print_findings(_findings(settings, environ), out or sys.stdout) else 0


def _findings(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check everything in the order in which a call needs it."""
    yield good("settings", "they can be read")
    for sentence in describe_unknown_names(environ, type(settings).model_fields):
        what_it_is, _, mend = sentence.partition("; ")
        yield note("settings", what_it_is, mend)
    yield from check_ports(settings)
    yield from check_page(settings)
    yield from check_file_limit(settings)
    yield from check_inbound_keys(settings)
    yield from check_certificates(settings)
    yield from check_intercept_port(settings)
    yield from check_authority(settings)
    yield from check_upstreams(settings)
    yield from check_content(settings, environ)
    yield from check_costs(settings)
    yield from check_store(settings, sends=sends_spans(environ))
    yield from check_backend(environ, other=_describe_running(settings))


def _describe_running(settings: Settings) -> str | None:
    """Say whether a running spantap, which may have another environment, sends spans."""
    if (sent := count_sent_spans(settings)) is not None:
        return f"the spantap that runs has its own, and has sent {sent:,} spans since it began"
    with contextlib.suppress(StoreError):
        if (holder := find_holder(settings.store)) is not None:
            return f"process {holder}, which has the store, has its own"
    return None
