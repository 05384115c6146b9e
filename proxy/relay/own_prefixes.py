"""Removes our prefixes from paths: they say to which launch a call belongs, and where it goes.

``/~run/LABEL/v1/messages`` is a call of ``/v1/messages`` that belongs to a launch
(:mod:`telemetry.launch_labels`); ``/~to/PASS/messages`` goes to the base URL in the pass
(:mod:`proxy.upstream.passes`). The second may follow the first.

They are removed before anything else is done with a path: the path without them is routed, recorded
and sent, byte for byte (R1). What only looks like such a prefix, or is elsewhere in a path, belongs
to the upstream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.prefixes import RUN_PREFIX, TO_PREFIX, split_segment
from telemetry.launch_labels import clean_label

if TYPE_CHECKING:
    from proxy.downstream.downstream import Downstream


def strip_own_prefixes(downstream: Downstream) -> str | None:
    """Remove our own prefixes from a request's target, and note its launch; return its pass."""
    target = downstream.target
    if target.startswith(RUN_PREFIX):
        label, target = split_segment(target, RUN_PREFIX)
        downstream.launch = clean_label(label)
    base = None
    if target.startswith(TO_PREFIX):
        base, target = split_segment(target, TO_PREFIX)
    downstream.target = target
    return base


def leave_out_own_prefixes(target: str) -> str:
    """Return a target without our own prefixes."""
    for prefix in (RUN_PREFIX, TO_PREFIX):
        if target.startswith(prefix):
            _, target = split_segment(target, prefix)
    return target
