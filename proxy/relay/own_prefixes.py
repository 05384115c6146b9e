"""Prefixes of paths that are spantap's own: whose launch a call is, and where it goes.

``/~run/LABEL/v1/messages`` is a call of ``/v1/messages`` that belongs to a launch
(:mod:`telemetry.launch_labels`); ``/~to/PASS/messages`` goes to the base URL in the pass
(:mod:`proxy.upstream.passes`). The second may stand behind the first.

Rules:

1. They are stripped before anything else is done with a path: what is routed, recorded and sent
   is the path without them, byte for byte (R1).
2. What only looks like one, or stands elsewhere in a path, is the upstream's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.prefixes import RUN_PREFIX, TO_PREFIX, split_segment
from telemetry.launch_labels import clean_label

if TYPE_CHECKING:
    from proxy.downstream.downstream import Downstream


def strip_own_prefixes(downstream: Downstream) -> str | None:
    """Strip our own prefixes from a request's target, and note its launch; return its pass."""
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
    """Return a target without them."""
    for prefix in (RUN_PREFIX, TO_PREFIX):
        if target.startswith(prefix):
            _, target = split_segment(target, prefix)
    return target
