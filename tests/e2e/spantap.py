"""The installed ``spantap``: proxy and demo upstream as processes, configured as users do it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.processes import ServerProcess, find_free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("PROGRAM", "RunningProxy", "running_proxy", "running_upstream")

PROGRAM = str(Path(sys.executable).with_name("spantap"))

_START_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProxy:
    """A proxy that runs.

    Attributes:
        port: of traffic.
        store: the path of its span store.
    """

    port: int
    store: Path

    @property
    def base_url(self) -> str:
        """What clients are pointed at."""
        return f"http://127.0.0.1:{self.port}/v1"


@contextmanager
def running_upstream(folder: Path) -> Iterator[int]:
    """``spantap upstream``; gives its port."""
    port = find_free_port()
    command = [PROGRAM, "upstream", "--port", str(port)]
    with ServerProcess(command, environment={}, log=folder / "upstream.log") as server:
        server.wait_for(f"http://127.0.0.1:{port}/v1/models", _START_SECONDS)
        yield port


@contextmanager
def running_proxy(
    folder: Path, *, upstream_port: int, project: str, endpoint: str, protocol: str
) -> Iterator[RunningProxy]:
    """``spantap serve`` with a configuration file and a store of its own in ``folder``.

    It must end well: with status 0, and nothing in its log that is an error.

    Args:
        folder: an empty folder.
        upstream_port: where the demo upstream listens.
        project: the project in Phoenix.
        endpoint: OTLP endpoint.
        protocol: ``http/protobuf`` or ``grpc``.
    """
    proxy = RunningProxy(port=find_free_port(), store=folder / "traces.db")
    admin_port = find_free_port()
    config = folder / "spantap.toml"
    config.write_text(
        f'upstream = "http://127.0.0.1:{upstream_port}"\n'
        f"port = {proxy.port}\n"
        f"admin_port = {admin_port}\n"
        f'store = "{proxy.store}"\n'
        "linger_seconds = 0\n"
    )
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_RESOURCE_ATTRIBUTES": f"openinference.project.name={project}",
    }
    command = [PROGRAM, "serve", "--config", str(config)]
    with ServerProcess(command, environment=environment, log=folder / "serve.log") as server:
        server.wait_for(f"http://127.0.0.1:{admin_port}/readyz", _START_SECONDS)
        yield proxy
        assert server.end() == 0, server.output
        assert not any(word in server.output for word in (" ERROR ", "Traceback")), server.output
