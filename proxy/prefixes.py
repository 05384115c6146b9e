"""Prefixes of paths that only spantap uses; no provider has such a path."""

from __future__ import annotations

from typing import Final

RUN_PREFIX: Final = "/~run/"
"""Before the label of a launch (:mod:`telemetry.launch_labels`)."""

TO_PREFIX: Final = "/~to/"
"""Before a pass to a base URL (:mod:`proxy.upstream.passes`)."""


def split_segment(target: str, prefix: str) -> tuple[str, str]:
    """Split a target into the segment after its prefix, and the target after that.

    >>> split_segment("/~run/app?x=/1", "/~run/")
    ('app', '/?x=/1')
    """
    path, mark, query = target.partition("?")
    segment, _, rest = path[len(prefix) :].partition("/")
    return segment, f"/{rest}{mark}{query}"
