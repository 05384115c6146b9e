"""LiteLLM's proxy as a contestant, where ``tests/bench/install_litellm.sh`` has installed it.

One worker, its OpenTelemetry callback on, with the environment variables of its own documentation.
It writes several spans for a call and says nothing of what it dropped: its spans are counted where
they arrive.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.contestants import running_program
from tests.e2e.processes import find_free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.contestants import Contestant

__all__ = ("LITELLM_OBSTACLE", "running_litellm")

_PYTHON = Path(__file__).parents[2] / ".litellm/bin/python"

LITELLM_OBSTACLE = (
    None if _PYTHON.exists() else "LiteLLM is not installed: tests/bench/install_litellm.sh"
)

_CONFIGURATION = """
model_list:
  - model_name: load
    litellm_params:
      model: openai/load-1
      api_base: http://127.0.0.1:{upstream_port}/v1
      api_key: sk-load
litellm_settings:
  callbacks: ["otel"]
"""

_RUN = "from litellm import run_server; run_server()"


@contextmanager
def running_litellm(folder: Path, upstream_port: int, endpoint: str) -> Iterator[Contestant]:
    """LiteLLM's proxy, sending its spans to a backend."""
    port = find_free_port()
    configuration = folder / "litellm.yaml"
    configuration.write_text(_CONFIGURATION.format(upstream_port=upstream_port))
    command = [str(_PYTHON), "-c", _RUN, "--config", str(configuration)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    environment = {
        "OTEL_EXPORTER": "otlp_http",
        "OTEL_ENDPOINT": f"{endpoint}/v1/traces",
        "OTEL_BSP_SCHEDULE_DELAY": "1000",  # ms between two batches
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # prices from the package: no network
        "LITELLM_LOG": "ERROR",
        # No key, for the others ask for none; this is loopback.
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    with running_program(
        "LiteLLM", command, port, environment=environment, sends_spans=True
    ) as litellm:
        yield litellm
