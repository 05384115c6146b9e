"""``deploy/compose.yaml``: schema, hardening, true ports and variables.

See ``docs/contract/promises.md#compose``. No engine is at hand, so the containers are not started.
Instead spantap and the demo upstream run as processes, with the commands and the variables of their
services.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest
import requests

from codec.text.jsontext import decode_json_object
from proxy.demo.upstream import HOST as UPSTREAM_HOST
from proxy.processes import supervisor
from proxy.settings.settings import Settings, load_settings
from telemetry.export.settings import OtlpProtocol, read_otlp_settings
from tests.deploy.chart import ask
from tests.deploy.tools import ROOT, run, tool
from tests.e2e.collector import PROGRAM as COLLECTOR
from tests.e2e.outbox import wait_for_delivery
from tests.e2e.processes import ServerProcess, clean_environment, find_free_port, wait_until
from tests.e2e.spantap import PROGRAM as SPANTAP
from tests.otlp_sink import GrpcSink

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from pathlib import Path

FILE = ROOT / "deploy" / "compose.yaml"
FOLDER = FILE.parent

ALWAYS = {"spantap", "demo-upstream"}

PROFILES = {
    "phoenix": {"phoenix"},
    "jaeger": {"jaeger"},
    "collector": {"collector", "collected-phoenix", "collected-jaeger"},
}

WRITES_TO_ITS_ROOT = {"phoenix", "collected-phoenix"}
"""Whose image was not seen to do without."""

_START_SECONDS = 30.0

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^${}]*))?\}")

_PORT = re.compile(r"\$\{BIND_ADDRESS:-127\.0\.0\.1\}:\$\{[A-Z_]+_PORT:-(\d+)\}:(\d+)")

_PINNED = re.compile(r"[a-z/-]+:(?:version-)?(\d+\.\d+\.\d+)")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services as they stand in the file."""
    (document,) = ask("parse", text=FILE.read_text())
    found: dict[str, Any] = document["services"]
    return found


@pytest.fixture(scope="module")
def environment(services: dict[str, Any]) -> dict[str, str]:
    """What spantap's container has, where the user says nothing."""
    return {name: fill_in(value) for name, value in services["spantap"]["environment"].items()}


@pytest.fixture(scope="module")
def collecting() -> dict[str, Any]:
    """The collector's configuration."""
    (document,) = ask("parse", text=(FOLDER / "compose" / "collector.yaml").read_text())
    configuration: dict[str, Any] = document
    return configuration


def fill_in(text: str, environ: Mapping[str, str] | None = None) -> str:
    """The text with its variables replaced, in the one form that the file uses."""
    return _VARIABLE.sub(lambda found: (environ or {}).get(found[1]) or found[2] or "", text)


def fits_schema(path: Path) -> subprocess.CompletedProcess[str]:
    return run([tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", path])


def test_the_file_fits_the_schema(tmp_path: Path) -> None:
    """That of Compose; and the check does find a misspelt key."""
    checked = fits_schema(FILE)
    assert checked.returncode == 0, checked.stdout
    misspelt = tmp_path / "compose.yaml"
    misspelt.write_text(FILE.read_text().replace("read_only:", "readonly:"))
    assert fits_schema(misspelt).returncode == 1


@pytest.mark.parametrize("name", ["compose.yaml", "compose/collector.yaml"])
def test_the_style_is_clean(name: str) -> None:
    """As yamllint sees it; lines may be as long as in the code."""
    rules = "{extends: default, rules: {line-length: {max: 100}, document-start: disable, "
    rules += "comments: {min-spaces-from-content: 1}}}"
    checked = run([tool("yamllint"), "--strict", "-d", rules, FOLDER / name])
    assert checked.returncode == 0, checked.stdout


def test_profiles_start_their_backend_and_spantap(services: dict[str, Any]) -> None:
    """Without a profile it is spantap and the demo upstream."""
    assert {name for name, service in services.items() if "profiles" not in service} == ALWAYS
    for profile, members in PROFILES.items():
        started = {name for name, s in services.items() if profile in s.get("profiles", ())}
        assert started == members
        for name in started:
            assert set(services[name].get("depends_on", ())) <= started, name
    assert services.keys() == ALWAYS.union(*PROFILES.values())


def test_one_backend_of_each_profile_has_the_name_that_spantap_sends_to(
    services: dict[str, Any], environment: dict[str, str], collecting: dict[str, Any]
) -> None:
    """Two would get half of the spans each, none would get none."""
    settings = read_otlp_settings(environment)
    assert settings is not None
    assert settings.protocol is OtlpProtocol.GRPC
    assert settings.insecure
    host, _, port = settings.endpoint.partition(":")
    for profile, members in PROFILES.items():
        named = [
            name
            for name in members
            if host in services[name].get("networks", {}).get("default", {}).get("aliases", ())
        ]
        assert named == [profile]
    grpc = collecting["receivers"]["otlp"]["protocols"]["grpc"]
    assert grpc["endpoint"] == f"0.0.0.0:{port}"


def test_every_service_is_hardened(services: dict[str, Any]) -> None:
    """No capabilities, none to be gained, a read-only root; a place for temporary files."""
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["init"] is True, name
        assert service["restart"] == "unless-stopped", name
        assert service.get("read_only", False) is (name not in WRITES_TO_ITS_ROOT), name
        assert not service.keys() & {"privileged", "cap_add", "pid", "ipc", "devices"}, name
    for name in ALWAYS:
        assert [mount.partition(":")[0] for mount in services[name]["tmpfs"]] == ["/tmp"]


def test_images_are_pinned_to_what_the_end_to_end_tests_run(services: dict[str, Any]) -> None:
    """Ours is built from this checkout, or the one that SPANTAP_IMAGE names."""
    versions: dict[str, str] = {}
    for name, service in services.items():
        if name in ALWAYS:
            assert service["image"] == "${SPANTAP_IMAGE:-spantap:local}"
            continue
        pinned = _PINNED.fullmatch(service["image"])
        assert pinned is not None, service["image"]
        versions[name] = pinned[1]
    tested = ROOT / "tests" / "e2e"
    assert versions["phoenix"] == versions["collected-phoenix"]
    assert f"arize-phoenix=={versions['phoenix']}\n" in (tested / "phoenix.txt").read_text()
    assert versions["jaeger"] == versions["collected-jaeger"]
    jaeger = versions["jaeger"].removesuffix(".0")
    assert f"the real Jaeger {jaeger}," in (tested / "install_jaeger.sh").read_text()
    assert f"otlpreceiver v{versions['collector']}\n" in (tested / "collector.yaml").read_text()


def test_ports_are_on_loopback_and_apart(services: dict[str, Any]) -> None:
    """Whoever wants others to reach one says so by BIND_ADDRESS."""
    for profile in PROFILES.values():
        published: list[str] = []
        for name in ALWAYS | profile:
            for text in services[name].get("ports", ()):
                port = _PORT.fullmatch(text)
                assert port is not None, text
                assert port[1] == port[2], text
                published.append(port[1])
        assert len(published) == len(set(published)) >= 3


def test_ports_are_those_that_spantap_listens_on(
    services: dict[str, Any], environment: dict[str, str]
) -> None:
    """On all addresses of its container, or nobody would reach it."""
    settings = read_settings(environment)
    assert (settings.host, settings.admin_host) == ("0.0.0.0", "0.0.0.0")
    inside = {int(port.rpartition(":")[2]) for port in services["spantap"]["ports"]}
    assert inside == {settings.port, settings.admin_port}


def test_ports_of_the_collector_are_those_it_listens_on(
    services: dict[str, Any], collecting: dict[str, Any]
) -> None:
    """OTLP over gRPC and over HTTP."""
    protocols = collecting["receivers"]["otlp"]["protocols"]
    inside = {port.rpartition(":")[2] for port in services["collector"]["ports"]}
    assert inside == {protocol["endpoint"].rpartition(":")[2] for protocol in protocols.values()}


def test_variables_are_ones_that_spantap_reads(environment: dict[str, str]) -> None:
    """A name that no setting has would be ignored; of OTEL_* each makes a difference."""
    known = {f"SPANTAP_{name.upper()}" for name in Settings.model_fields}
    settings = read_otlp_settings(environment)
    for name in environment:
        if name.startswith("SPANTAP_"):
            assert name in known
        else:
            assert name.startswith("OTEL_")
            without = {key: value for key, value in environment.items() if key != name}
            assert read_otlp_settings(without) != settings, name


def test_the_user_s_upstream_and_backend_win(services: dict[str, Any]) -> None:
    """Those that `.env` or the shell names."""
    said = {
        "SPANTAP_UPSTREAM": "https://api.example.com",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "https://otlp.example.com",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }
    values = services["spantap"]["environment"]
    assert {name: fill_in(values[name], said) for name in said} == said
    assert services["spantap"]["env_file"] == [{"path": "spantap.env", "required": False}]


def test_spantap_s_upstream_is_the_demo_upstream(
    services: dict[str, Any], environment: dict[str, str]
) -> None:
    """It listens to loopback alone, so both share one network."""
    demo = services["demo-upstream"]
    port = demo["command"][demo["command"].index("--port") + 1]
    assert environment["SPANTAP_UPSTREAM"] == f"http://{UPSTREAM_HOST}:{port}"
    assert demo["network_mode"] == "service:spantap"
    assert list(demo["depends_on"]) == ["spantap"]


def test_the_end_has_all_the_time_that_it_may_take(
    services: dict[str, Any], environment: dict[str, str]
) -> None:
    """Linger, drain and flush, and the supervisor's limits for what else may hang."""
    settings = read_settings(environment)
    longest = settings.linger_seconds + settings.drain_seconds + supervisor.FLUSH_SECONDS
    longest += supervisor.END_SECONDS + supervisor.STORE_SECONDS + supervisor.CLOSE_SECONDS
    assert float(services["spantap"]["stop_grace_period"].removesuffix("s")) > longest


def test_the_store_is_on_the_volume(services: dict[str, Any], environment: dict[str, str]) -> None:
    """A read-only root takes none, and it has to outlive the container."""
    name, _, mount = services["spantap"]["volumes"][0].partition(":")
    assert PurePosixPath(environment["SPANTAP_STORE"]).parent == PurePosixPath(mount)
    (document,) = ask("parse", text=FILE.read_text())
    assert name in document["volumes"]


def test_the_image_is_the_one_that_is_built(
    services: dict[str, Any], environment: dict[str, str]
) -> None:
    """Its file is there, and has the folder of the store, which its user may write to."""
    build = services["spantap"]["build"]
    image_file = (FOLDER / build["context"] / build["dockerfile"]).resolve()
    assert image_file == FOLDER / "Dockerfile"
    assert f"SPANTAP_STORE={environment['SPANTAP_STORE']}" in image_file.read_text()


def test_the_collector_sends_to_every_backend(
    services: dict[str, Any], collecting: dict[str, Any]
) -> None:
    """To the services behind it, by their names and their port of OTLP/gRPC."""
    (traces,) = collecting["service"]["pipelines"].values()
    assert set(traces["exporters"]) == collecting["exporters"].keys()
    assert set(traces["processors"]) == collecting["processors"].keys()
    endpoints = {exporter["endpoint"] for exporter in collecting["exporters"].values()}
    assert endpoints == {"collected-phoenix:4317", "collected-jaeger:4317"}
    assert {endpoint.partition(":")[0] for endpoint in endpoints} == set(
        services["collector"]["depends_on"]
    )
    (volume,) = services["collector"]["volumes"]
    source, target, mode = volume.split(":")
    assert (FOLDER / source).is_file()
    assert services["collector"]["command"] == [f"--config={target}"]
    assert mode == "ro"


def test_a_chat_with_the_service_s_variables_is_answered_and_delivered(
    services: dict[str, Any], environment: dict[str, str], tmp_path: Path
) -> None:
    """The commands and variables of the services, with hosts, ports and the store of this test."""
    port, admin_port, upstream_port = find_free_port(), find_free_port(), find_free_port()
    store = tmp_path / PurePosixPath(environment["SPANTAP_STORE"]).name
    upstream = [SPANTAP, *services["demo-upstream"]["command"]]
    upstream[upstream.index("--port") + 1] = str(upstream_port)
    with GrpcSink() as sink:
        variables = {
            **environment,
            "SPANTAP_UPSTREAM": f"http://127.0.0.1:{upstream_port}",
            "SPANTAP_HOST": "127.0.0.1",
            "SPANTAP_ADMIN_HOST": "127.0.0.1",
            "SPANTAP_PORT": str(port),
            "SPANTAP_ADMIN_PORT": str(admin_port),
            "SPANTAP_STORE": str(store),
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{sink.address}",
        }
        serve = [SPANTAP, *services["spantap"]["command"]]
        with (
            ServerProcess(upstream, environment={}, log=tmp_path / "upstream.log") as demo,
            ServerProcess(serve, environment=variables, log=tmp_path / "serve.log") as proxy,
        ):
            demo.wait_for(f"http://127.0.0.1:{upstream_port}/v1/models", _START_SECONDS)
            proxy.wait_for(f"http://127.0.0.1:{admin_port}/readyz", _START_SECONDS)
            assert chat(port).status_code == requests.codes.ok
            wait_for_delivery(store, 1)
            assert len(sink.accepted) == 1
            test = services["spantap"]["healthcheck"]["test"]
            assert test[:2] == ["CMD", "spantap"]
            healthcheck = [SPANTAP, *test[2:]]
            assert run(healthcheck, environ=clean_environment() | variables).returncode == 0
            assert proxy.end() == 0, proxy.output
            assert run(healthcheck, environ=clean_environment() | variables).returncode == 1


def test_the_collector_s_configuration_is_valid_and_sends_each_span_to_both(
    collecting: dict[str, Any], tmp_path: Path
) -> None:
    """A real collector says so, and with it before them two backends have the same span."""
    require_collector("otlp_grpc", "memory_limiter")
    checked = run([COLLECTOR, "validate", "--config", FOLDER / "compose" / "collector.yaml"])
    assert checked.returncode == 0, checked.stdout
    grpc_port, http_port, port = find_free_port(), find_free_port(), find_free_port()
    with GrpcSink() as phoenix, GrpcSink() as jaeger:
        moved = (FOLDER / "compose" / "collector.yaml").read_text()
        for there, here in {
            "0.0.0.0:4317": f"127.0.0.1:{grpc_port}",
            "0.0.0.0:4318": f"127.0.0.1:{http_port}",
            "collected-phoenix:4317": phoenix.address,
            "collected-jaeger:4317": jaeger.address,
        }.items():
            assert moved.count(there) == 1
            moved = moved.replace(there, here)
        configuration = tmp_path / "collector.yaml"
        configuration.write_text(f"{moved}  telemetry: {{metrics: {{level: none}}}}\n")
        upstream_port = find_free_port()
        variables = {
            "SPANTAP_UPSTREAM": f"http://127.0.0.1:{upstream_port}",
            "SPANTAP_PORT": str(port),
            "SPANTAP_ADMIN_PORT": str(find_free_port()),
            "SPANTAP_STORE": str(tmp_path / "traces.db"),
            "SPANTAP_LINGER_SECONDS": "0",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{grpc_port}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        }
        ready = f"http://127.0.0.1:{variables['SPANTAP_ADMIN_PORT']}/readyz"
        with (
            ServerProcess(
                [str(COLLECTOR), "--config", str(configuration)],
                environment={},
                log=tmp_path / "collector.log",
            ) as collector,
            ServerProcess(
                [SPANTAP, "upstream", "--port", str(upstream_port)],
                environment={},
                log=tmp_path / "upstream.log",
            ) as demo,
            ServerProcess(
                [SPANTAP, "serve"], environment=variables, log=tmp_path / "serve.log"
            ) as proxy,
        ):
            wait_until(
                lambda: "Everything is ready" in collector.output, _START_SECONDS, "collector"
            )
            demo.wait_for(f"http://127.0.0.1:{upstream_port}/v1/models", _START_SECONDS)
            proxy.wait_for(ready, _START_SECONDS)
            assert chat(port).status_code == requests.codes.ok
            sent = phoenix.wait_for_spans(1)
            assert jaeger.wait_for_spans(1) == sent
            assert "deprecated" not in collector.output


def chat(port: int) -> requests.Response:
    """One chat through the proxy; the key is none."""
    with requests.Session() as session:
        session.trust_env = False
        response = session.post(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            json={"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]},
            headers={"Authorization": "Bearer placeholder"},
            timeout=30,
        )
    assert decode_json_object(response.content)["choices"]
    return response


def read_settings(environment: Mapping[str, str]) -> Settings:
    """What spantap makes of these variables alone."""
    with pytest.MonkeyPatch.context() as patch:
        for name in Settings.model_fields:
            patch.delenv(f"SPANTAP_{name.upper()}", raising=False)
        patch.delenv("SPANTAP_CONFIG", raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        return load_settings()


def require_collector(*parts: str) -> None:
    """Skip where the collector of the end-to-end tests is absent, or was built without a part."""
    reason = "install_collector.sh has not built this collector: it needs Go >= 1.26"
    if not COLLECTOR.exists():
        pytest.skip(reason)
    components = run([COLLECTOR, "components"]).stdout
    if not all(f"name: {part}\n" in components for part in parts):
        pytest.skip(reason)
