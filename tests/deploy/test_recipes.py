"""Recipes are valid and tight, and their settings run (``docs/contract/promises.md#recipes``)."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web

from codec.text.jsontext import decode_json
from proxy.app import CUT_SECONDS
from proxy.demo.upstream import Pace, create_demo_upstream
from proxy.processes.supervisor import CLOSE_SECONDS, FLUSH_SECONDS
from proxy.settings.settings import Settings, load_settings
from telemetry.export.exporter import MAX_BATCH_BYTES
from telemetry.export.settings import read_otlp_settings
from telemetry.observing.open_bodies import MAX_OPEN_BODIES_BYTES
from tests.deploy.chart import CHART, Rendered, ask, containers_of, pod_specs, read_values, render
from tests.deploy.test_chart_policy import breaches, needed_on_disk
from tests.deploy.tools import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

RECIPES = ROOT / "deploy/recipes"
VALUES = sorted(RECIPES.glob("*-values.yaml"))
MANIFESTS = [path for path in sorted(RECIPES.glob("*.yaml")) if path not in VALUES]

SPANTAP = Path(sys.executable).with_name("spantap")

every_file_of_values = pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
every_manifest = pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)


def read_manifest(path: Path) -> list[dict[str, Any]]:
    things: list[dict[str, Any]] = ask("parse", text=path.read_text())
    return things


def sidecar() -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
    """The sidecar's variables, its container, and the pod."""
    settings, deployment = read_manifest(RECIPES / "sidecar.yaml")
    pod = deployment["spec"]["template"]["spec"]
    return settings["data"], pod["initContainers"][0], pod


def read_size(text: str) -> int:
    return int(text[:-2]) << {"Mi": 20, "Gi": 30}[text[-2:]]


def test_every_recipe_is_told() -> None:
    """The table of recipes has every file."""
    told = set(re.findall(r"\]\(([a-z-]+\.yaml)\)", (RECIPES / "README.md").read_text()))
    assert told == {path.name for path in RECIPES.glob("*.yaml")}


@every_file_of_values
def test_values_render_to_what_kubernetes_takes(values: Path) -> None:
    """Helm has nothing to say, every object is valid, and pods keep to the restricted profile."""
    read = read_values(values)
    assert ask("lint", values=read) == []
    everything = render(read)
    assert ask("judge", objects=list(everything.things)) == []
    assert [breaches(spec) for _, spec in pod_specs(everything.things)] == [[], []]


@every_manifest
def test_manifests_are_what_kubernetes_takes(manifest: Path) -> None:
    """Every object is valid, pods keep to the restricted profile, and every root is read-only."""
    things = read_manifest(manifest)
    assert ask("judge", objects=things) == []
    for _, spec in pod_specs(things):
        assert breaches(spec) == []
        assert spec["automountServiceAccountToken"] is False
        for container in containers_of(spec):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert re.search(r":(?!latest$)[^:/]+$", container["image"])


# The gateway of a namespace, and the one behind an ingress


@pytest.mark.parametrize("name", ["gateway", "ingress"])
def test_who_holds_a_key_asks_for_one(name: str) -> None:
    """Where spantap has the provider's key, clients show keys of ours; not everybody may come."""
    everything = render(read_values(RECIPES / f"{name}-values.yaml"))
    variables = everything.environment()
    assert variables["UPSTREAM_KEY"].startswith("Secret/")
    assert variables["SPANTAP_INBOUND_KEYS_FILE"]
    traffic, _ = everything.one("NetworkPolicy")["spec"]["ingress"]
    assert traffic["from"]
    assert "spends it" not in everything.notes


def test_a_server_of_models_is_let_wait_for() -> None:
    """In front of vLLM usage is asked for, and the policy lets out to its port."""
    everything = render(read_values(RECIPES / "vllm-values.yaml"))
    variables = everything.environment()
    assert variables["SPANTAP_UPSTREAM"] == "http://vllm.models:8000"
    assert variables["SPANTAP_USAGE"] == "always"
    _, rest = everything.one("NetworkPolicy")["spec"]["egress"]
    assert {8000, 6006} <= {port["port"] for port in rest["ports"]}


# The sidecar


def test_the_sidecar_starts_first_and_ends_last() -> None:
    """An init container that is restarted always; its probe holds the application back."""
    _, container, pod = sidecar()
    assert container["restartPolicy"] == "Always"
    assert container["startupProbe"]["httpGet"]["path"] == "/readyz"
    assert [c["name"] for c in pod["containers"]] == ["app"]


def test_the_sidecar_is_where_the_application_looks() -> None:
    """Base URL, ports and probes agree, and nobody outside the pod can call."""
    variables, container, pod = sidecar()
    app = {entry["name"]: entry.get("value") for entry in pod["containers"][0]["env"]}
    host, port = variables["SPANTAP_HOST"], variables["SPANTAP_PORT"]
    assert app["OPENAI_BASE_URL"] == f"http://{host}:{port}/v1"
    assert host == "127.0.0.1"
    (admin,) = container["ports"]
    assert admin["containerPort"] == int(variables["SPANTAP_ADMIN_PORT"])
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] == admin["name"]
    assert pod["enableServiceLinks"] is False


def test_the_sidecar_has_room() -> None:
    """Its end fits into the grace period; its store, the reserve and the spool onto its volume."""
    variables, _, pod = sidecar()
    needed = sum(int(variables[f"SPANTAP_{name}_SECONDS"]) for name in ("LINGER", "DRAIN"))
    end_seconds = CUT_SECONDS + FLUSH_SECONDS + CLOSE_SECONDS + 1
    # Half of the grace period is the application's, whose end comes first.
    assert needed + end_seconds < pod["terminationGracePeriodSeconds"] / 2
    volume = next(v for v in pod["volumes"] if v["name"] == "spantap-store")
    assert needed_on_disk(variables) < read_size(volume["emptyDir"]["sizeLimit"])


def test_claims_have_room_for_a_damaged_store_and_the_spool() -> None:
    """In every recipe with claims, as in the default of the chart."""
    for values in map(read_values, VALUES):
        everything = render(values)
        for workload in everything.all("StatefulSet"):
            (claim,) = workload["spec"]["volumeClaimTemplates"]
            size = claim["spec"]["resources"]["requests"]["storage"]
            assert needed_on_disk(everything.environment()) < read_size(size)


WORKED_ON_BYTES = 200 << 20
"""What telemetry may take besides for the body that it works on."""


def least_memory(variables: Mapping[str, str], streams: int, stream_bytes: float = 0.1e6) -> float:
    """What docs/kubernetes.md counts, in bytes; a stream to an upstream with TLS takes 0.4e6."""
    own = Settings()
    bodies = int(variables.get("SPANTAP_MAX_BODIES_BYTES", own.max_bodies_bytes))
    waiting = int(variables.get("SPANTAP_MAX_WAITING_BYTES", own.max_waiting_bytes))
    workers = int(variables.get("SPANTAP_WORKERS", own.workers))
    observed = MAX_OPEN_BODIES_BYTES + WORKED_ON_BYTES
    return 130e6 + workers * (bodies + waiting) + observed + (64 << 20) + streams * stream_bytes


def memory_limit(container: dict[str, Any]) -> int:
    return read_size(container["resources"]["limits"]["memory"])


def test_memory_is_what_the_settings_take() -> None:
    """The sidecar has room for a hundred streams, and that in front of vLLM for all it may have."""
    variables, container, _ = sidecar()
    assert least_memory(variables, 100) < memory_limit(container)
    everything = render(read_values(RECIPES / "vllm-values.yaml"))
    variables = everything.environment()
    container = everything.one("Deployment")["spec"]["template"]["spec"]["containers"][0]
    streams = int(variables["SPANTAP_MAX_CONNECTIONS"])
    assert least_memory(variables, streams) < memory_limit(container)
    # As the chart comes, for a thousand streams to an upstream with TLS.
    everything = render({})
    pod = everything.one("Deployment")["spec"]["template"]["spec"]
    needed = least_memory(everything.environment(), 1_000, 0.4e6)
    assert needed < memory_limit(pod["containers"][0])


def test_what_the_autoscaler_counts_is_read() -> None:
    """Where it counts open calls Prometheus reads them."""
    for values in map(read_values, VALUES):
        if values.get("autoscaling", {}).get("openExchanges", {}).get("enabled"):
            assert render(values).one("ServiceMonitor")


def test_the_sidecar_speaks_as_the_program_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its variables is a setting that the program takes, or one of OpenTelemetry's."""
    variables, _, _ = sidecar()
    names = {f"SPANTAP_{name.upper()}" for name in Settings.model_fields}
    assert {name for name in variables if name.startswith("SPANTAP_")} <= names
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert load_settings().linger_seconds == 0
    assert read_otlp_settings(variables) is not None


# The fleet


def test_the_collector_is_wired() -> None:
    """Every component that a pipeline names is there and none beside; ports are the Service's."""
    settings, service, stateful, _ = read_manifest(RECIPES / "collector.yaml")
    (config,) = ask("parse", text=settings["data"]["config.yaml"])
    pipelines = config["service"]["pipelines"].values()
    for kind in ("receivers", "processors", "exporters"):
        assert {name for pipeline in pipelines for name in pipeline[kind]} == set(config[kind])
    assert set(config["service"]["extensions"]) == set(config["extensions"])
    exporters = config["exporters"]
    assert set(exporters) == {"otlp_http/phoenix", "otlp_grpc/jaeger", "kafka"}
    assert all(e["sending_queue"]["storage"] in config["extensions"] for e in exporters.values())
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    listened = {
        int(protocol["endpoint"].rpartition(":")[2])
        for protocol in config["receivers"]["otlp"]["protocols"].values()
    }
    assert {ports[p["targetPort"]] for p in service["spec"]["ports"]} == listened
    assert all(ports[p["targetPort"]] == p["port"] for p in service["spec"]["ports"])
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["queue"] == config["extensions"]["file_storage"]["directory"]
    claim = stateful["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]
    queues = sum(exporter["sending_queue"]["queue_size"] for exporter in exporters.values())
    assert queues < int(claim.removesuffix("Gi")) << 30


def test_the_collector_takes_the_largest_request() -> None:
    """Neither gRPC nor Kafka refuses what spantap sends at once, or its largest span."""
    settings, *_ = read_manifest(RECIPES / "collector.yaml")
    (config,) = ask("parse", text=settings["data"]["config.yaml"])
    largest = MAX_BATCH_BYTES + Settings().max_span_bytes
    grpc = config["receivers"]["otlp"]["protocols"]["grpc"]
    assert grpc["max_recv_msg_size_mib"] << 20 > largest
    assert config["exporters"]["kafka"]["producer"]["max_message_bytes"] > max(
        MAX_BATCH_BYTES, Settings().max_span_bytes
    )


def test_the_fleet_finds_the_collector() -> None:
    """Pods send to the Service and port of the manifest beside their values."""
    endpoint = render(read_values(RECIPES / "fleet-values.yaml")).environment()[
        "OTEL_EXPORTER_OTLP_ENDPOINT"
    ]
    _, service, *_ = read_manifest(RECIPES / "collector.yaml")
    meta = service["metadata"]
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    assert endpoint == f"http://{meta['name']}.{meta['namespace']}:{ports['otlp-http']}"


# They run


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def placed(variables: Mapping[str, str], upstream: str, folder: Path) -> dict[str, str]:
    """The variables of a container on this machine: its ports free ones, its volumes a folder."""
    here = {
        **variables,
        "SPANTAP_HOST": "127.0.0.1",
        "SPANTAP_ADMIN_HOST": "127.0.0.1",
        "SPANTAP_PORT": str(free_port()),
        "SPANTAP_ADMIN_PORT": str(free_port()),
        "SPANTAP_UPSTREAM": upstream,
        "SPANTAP_STORE": str(folder / "traces.db"),
        "SPANTAP_LINGER_SECONDS": "0",
        "TMPDIR": str(folder),
        "PATH": os.environ["PATH"],
    }
    here.pop("OTEL_EXPORTER_OTLP_ENDPOINT", None)
    return here


async def start(*arguments: str, variables: Mapping[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        SPANTAP, *arguments, env=variables, stdout=asyncio.subprocess.PIPE
    )


@pytest.mark.parametrize("recipe", ["sidecar", "chart"])
async def test_it_runs(recipe: str, tmp_path: Path) -> None:
    """A chat is relayed and recorded, `helm test` would be content, and SIGTERM ends it."""
    if recipe == "sidecar":
        variables, container, _ = sidecar()
        arguments = container["args"]
    else:
        everything: Rendered = render(read_values(CHART / "ci/default-values.yaml"))
        variables = everything.environment()
        arguments = everything.one("Deployment")["spec"]["template"]["spec"]["containers"][0][
            "args"
        ]
    runner = web.AppRunner(create_demo_upstream(pace=Pace(first_seconds=0, chunk_seconds=0)))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    here = placed(variables, f"http://127.0.0.1:{runner.addresses[0][1]}", tmp_path)
    process = await start(*arguments, variables=here)
    try:
        check = (
            "healthcheck",
            "--admin-host=127.0.0.1",
            f"--admin-port={here['SPANTAP_ADMIN_PORT']}",
        )
        while await (await start(*check, variables={"PATH": here["PATH"]})).wait():
            assert process.returncode is None
        async with aiohttp.ClientSession(f"http://127.0.0.1:{here['SPANTAP_PORT']}") as client:
            chat = {"model": "gpt-demo", "messages": [{"role": "user", "content": "Hello"}]}
            async with client.post("/v1/chat/completions", json={**chat, "stream": True}) as answer:
                assert (answer.status, (await answer.read())[-14:]) == (200, b"data: [DONE]\n\n")
        process.terminate()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await runner.cleanup()
    shown = await start("traces", "--json", variables=here)
    told, _ = await shown.communicate()
    (line,) = told.splitlines()
    assert decode_json(line)["outcome"] == "completed"
