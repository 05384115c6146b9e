"""The installed ``spantap``: proxy and demo upstream as processes, configured as users do it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.processes import ServerProcess, find_free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ("PROGRAM", "RunningProxy", "Upstream", "running_proxy", "running_upstream")

PROGRAM = str(Path(sys.executable).with_name("spantap"))

_START_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """An upstream that runs, as a table of the settings names it.

    Attributes:
        port: where it listens on loopback.
        name: in the settings. Its prefix is the name with a slash before it; ``default`` has none.
        provider: whose it is said to be, for ``llm.provider`` and prices.
    """

    port: int
    name: str = "default"
    provider: str | None = None

    @property
    def base_url(self) -> str:
        """What a client is pointed at that goes past the proxy."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def table(self) -> str:
        """Its table in the configuration file."""
        lines = ["[[upstream]]", f'name = "{self.name}"', f'url = "{self.base_url}"']
        lines += [f'prefix = "/{self.name}"'] if self.name != "default" else []
        lines += [f'provider = "{self.provider}"'] if self.provider else []
        return "\n".join([*lines, ""])


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

    def find_url(self, upstream: Upstream) -> str:
        """What clients of one of several upstreams are pointed at."""
        if upstream.name == "default":
            return self.base_url
        return f"http://127.0.0.1:{self.port}/{upstream.name}/v1"


@contextmanager
def running_upstream(folder: Path, *, dialect: str = "openai") -> Iterator[int]:
    """``spantap upstream``; gives its port."""
    port = find_free_port()
    command = [PROGRAM, "upstream", "--port", str(port), "--dialect", dialect]
    with ServerProcess(command, environment={}, log=folder / "upstream.log") as server:
        server.wait_for(f"http://127.0.0.1:{port}/v1/models", _START_SECONDS)
        yield port


@contextmanager
def running_proxy(
    folder: Path,
    *,
    upstream_port: int,
    project: str,
    endpoint: str,
    protocol: str,
    upstreams: Sequence[Upstream] = (),
    environment: Mapping[str, str] | None = None,
    is_hurt: bool = False,
) -> Iterator[RunningProxy]:
    """``spantap serve`` with a configuration file and a store of its own in ``folder``.

    It must end well: with status 0, and nothing in its log that is an error.

    Args:
        folder: an empty folder.
        upstream_port: where the default upstream listens.
        project: the project in Phoenix.
        endpoint: OTLP endpoint.
        protocol: ``http/protobuf`` or ``grpc``.
        upstreams: further ones.
        environment: further variables.
        is_hurt: processes of it are killed, and its log may tell of errors.
    """
    proxy = RunningProxy(port=find_free_port(), store=folder / "traces.db")
    admin_port = find_free_port()
    config = folder / "spantap.toml"
    config.write_text(
        f"port = {proxy.port}\n"
        f"admin_port = {admin_port}\n"
        f'store = "{proxy.store}"\n'
        "linger_seconds = 0\n"
        + "".join(upstream.table for upstream in (Upstream(port=upstream_port), *upstreams))
    )
    variables = {
        # What is expected is written with bodies as values, and of each call alone.
        "SPANTAP_VALUES": "json",
        "SPANTAP_CONVERSATIONS_AS": "off",
        **(environment or {}),
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_RESOURCE_ATTRIBUTES": f"openinference.project.name={project}",
    }
    command = [PROGRAM, "serve", "--config", str(config)]
    with ServerProcess(command, environment=variables, log=folder / "serve.log") as server:
        server.wait_for(f"http://127.0.0.1:{admin_port}/readyz", _START_SECONDS)
        yield proxy
        assert server.end() == 0, server.output
        bad = ("Traceback",) if is_hurt else (" ERROR ", "Traceback")
        assert not any(word in server.output for word in bad), server.output
