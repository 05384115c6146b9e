"""One contestant between an upstream and a backend of its own, and what passed through it.

Rules:

1. Every answer must be whole and every exchange must have one span at the backend, or there are no
   figures: ``AssertionError``. Of a contestant that sends spans but is not ours, those that came
   are counted.
2. The relaying process has its core from the first load on, everything else shares the others.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tests.bench.contestants import (
    Contestant,
    pin_to_others,
    pinned,
    put_first,
    running_bare,
    running_nginx,
    running_observing,
)
from tests.bench.litellm import LITELLM_OBSTACLE, running_litellm
from tests.bench.span_sink import SpanSink
from tests.load.nginx import NGINX_OBSTACLE
from tests.load.tool import LoadClient, LoadUpstream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.load.tool import ClientLoad, ClientResult, LoadApi

__all__ = ("OBSTACLES", "Scene", "set_scene")

DRAIN_SECONDS = 120.0
"""How long a backlog is waited for; the goal is ten seconds."""

FOREIGN_PAUSE_SECONDS = 2.0
"""After how long without another span one that is not ours is done; LiteLLM is told to
send every second."""

OBSTACLES = {"bare": None, "spantap": None, "nginx": NGINX_OBSTACLE, "litellm": LITELLM_OBSTACLE}
"""The contestants, and why one cannot run here."""


class Upstream(Protocol):
    """What answers behind a contestant."""

    @property
    def port(self) -> int: ...

    @property
    def pid(self) -> int: ...


class Scene:
    """A contestant that has answered once, its backend, and how many exchanges it has answered.

    Attributes:
        load_goes_first: upstream and client wait for nobody else on their core, as on a machine of
            their own.
    """

    def __init__(
        self, contestant: Contestant, sink: SpanSink, *, load_goes_first: bool = False
    ) -> None:
        self.contestant = contestant
        self.sink = sink
        self.load_goes_first = load_goes_first
        self.exchanges = 1

    @contextmanager
    def loaded(self, load: ClientLoad) -> Iterator[LoadClient]:
        """A client at work; who wants its result asks :meth:`finish`."""
        self.contestant.pin()  # threads that came since, too
        with LoadClient(load) as client:
            pin_to_others(client.pid)
            if self.load_goes_first:
                put_first(client.pid)
            yield client

    def finish(self, client: LoadClient) -> ClientResult:
        """What came of a load, every answer of which must be whole."""
        result = client.wait()
        assert result.statuses == {200: result.requests}, f"of {result.requests}: {result.statuses}"
        self.exchanges += result.requests
        return result

    def run(self, load: ClientLoad) -> ClientResult:
        """Put a load on it, and wait for its end."""
        with self.loaded(load) as client:
            return self.finish(client)

    def settle(self) -> float:
        """Wait until the backend has a span of every exchange; how many seconds that took."""
        begun = time.monotonic()
        if self.contestant.spantap is not None:
            while self.read_metric("spantap_spans_exported_total") < self.exchanges:
                waited = time.monotonic() - begun
                assert waited < DRAIN_SECONDS, f"the backlog is not gone after {waited:.0f} s"
                time.sleep(0.05)
            waited = time.monotonic() - begun
            sent, came = self.exchanges, self.sink.count_spans()
            assert came == (sent, sent, sent), f"{sent} exchanges, {came}"
            return waited
        seen = -1
        while self.contestant.sends_spans and seen != (seen := self.sink.count_spans().different):
            time.sleep(FOREIGN_PAUSE_SECONDS)
        return time.monotonic() - begun

    def read_metric(self, name: str) -> int:
        """One of spantap's own numbers; 0 of whoever has none."""
        spantap = self.contestant.spantap
        return int(spantap.metrics().get(name, 0)) if spantap is not None else 0


@contextmanager
def set_scene(
    name: str,
    *,
    chunks: int = 200,
    rate: float = 0,
    workers: int = 1,
    api: LoadApi = "chat",
    settings: Mapping[str, str] | None = None,
    load_goes_first: bool = False,
    upstream: AbstractContextManager[Upstream] | None = None,
) -> Iterator[Scene]:
    """Start a contestant with an upstream and a backend of its own.

    `rate` is in chunks/s of each stream; 0: as fast as they are taken. `settings` are the
    product's. `load_goes_first` is as :class:`Scene` has it, and needs root. An `upstream` of
    another kind answers the first chat, too.
    """
    with ExitStack() as stack:
        running: Upstream = stack.enter_context(
            upstream or LoadUpstream(chunks=chunks, rate=rate, api=api)
        )
        upstream_port = running.port
        pin_to_others(running.pid)
        if load_goes_first:
            put_first(running.pid)
        sink = stack.enter_context(SpanSink())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        contestant = stack.enter_context(
            {
                "bare": lambda: running_bare(upstream_port),
                "nginx": lambda: running_nginx(folder, upstream_port),
                "litellm": lambda: running_litellm(folder, upstream_port, sink.url),
                "spantap": lambda: running_observing(
                    folder, upstream_port, sink.url, workers=workers, settings=settings
                ),
            }[name]()
        )
        stack.enter_context(pinned(contestant))
        yield Scene(contestant, sink, load_goes_first=load_goes_first)
