"""The program takes the environment that the chart renders, and hears what the values say."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from proxy.settings.settings import Settings, load_settings
from telemetry.export.otel_environment import check_otel_environment
from telemetry.export.settings import OtlpProtocol, read_backend, read_otlp_settings
from telemetry.privacy.switches import read_privacy_switches
from tests.deploy.chart import (
    CHART,
    CI_FILES,
    render,
    rendered,
)

if TYPE_CHECKING:
    from pathlib import Path

every_ci_file = pytest.mark.parametrize("values", CI_FILES, ids=lambda path: path.stem)


def accept(
    values: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> tuple[Settings, dict[str, str]]:
    """The settings that the program reads from the rendered environment, and that environment.

    Files of Secrets are not there: their folder is one in which they are.
    """
    variables = rendered(values).environment()
    for name, value in variables.items():
        if value.startswith("/etc/spantap/"):
            file = tmp_path / value.removeprefix("/etc/spantap/")
            file.parent.mkdir(exist_ok=True)
            file.touch()
            variables[name] = str(file)
    for name in ("SPANTAP_CONFIG", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return load_settings(), variables


@every_ci_file
def test_the_program_takes_the_environment(
    values: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Settings, OTLP variables, limits, sampler and privacy switches: none is refused."""
    settings, variables = accept(values, monkeypatch, tmp_path)
    if "OTEL_EXPORTER_OTLP_HEADERS" in variables:
        variables["OTEL_EXPORTER_OTLP_HEADERS"] = "authorization=Bearer%20x"  # of the Secret
    check_otel_environment(variables)
    read_privacy_switches(variables)
    read_otlp_settings(variables)
    read_backend(variables, "metrics")
    assert (settings.host, settings.port, settings.admin_port) == ("0.0.0.0", 4000, 4001)


def test_tables_arrive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Headers, patterns, prices, lists and numbers mean to the program what the values say."""
    settings, variables = accept(CHART / "ci/private-values.yaml", monkeypatch, tmp_path)
    assert settings.headers == {"x-conversation": "session.id", "x-label-*": "metadata.*"}
    assert {reason.value for reason in settings.keep} == {"errors", "slow"}
    assert settings.redact == {"email", "api_key"}
    assert settings.redact_patterns == {"ticket": "TICKET-[0-9]+"}
    assert settings.prices[0].model_dump(exclude_none=True) == {
        "model": "my-model", "provider": "openai",
        "input": 0.25, "output": 2.0, "cache_read": 0.025,
    }  # fmt: skip
    assert (settings.workers, settings.keep_slow_seconds, settings.propagate) == (2, 2.5, False)
    switches = read_privacy_switches(variables)
    assert switches.hide_inputs
    assert switches.hide_output_text
    assert switches.hide_llm_tools is False
    assert switches.base64_image_max_length == 1000
    assert variables["OTEL_TRACES_SAMPLER_ARG"] == "0.1"


def test_upstreams_arrive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each upstream with its prefix, its policy and its key, which comes from its Secret."""
    settings, variables = accept(CHART / "ci/keys-values.yaml", monkeypatch, tmp_path)
    keys = {u.name: variables[u.api_key_env] for u in settings.upstreams if u.api_key_env}
    assert keys == {"default": "Secret/openai/api-key", "groq": "Secret/groq/token"}
    assert [(u.name, u.prefix) for u in settings.upstreams] == [
        ("default", "/"), ("groq", "/groq"), ("local", "/local"),
    ]  # fmt: skip
    assert [u.usage.value if u.usage else None for u in settings.upstreams] == [
        None,
        "always",
        None,
    ]
    assert settings.usage.value == "if-absent"
    assert settings.inbound_keys_file is not None


def test_a_backend_arrives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Endpoint, protocol, headers of a Secret, certificates; attributes with any character."""
    _, variables = accept(CHART / "ci/persistent-values.yaml", monkeypatch, tmp_path)
    assert variables["OTEL_EXPORTER_OTLP_HEADERS"] == "Secret/otlp-headers/headers"
    variables["OTEL_EXPORTER_OTLP_HEADERS"] = "authorization=Bearer%20x"
    backend = read_otlp_settings(variables)
    assert backend is not None
    assert backend.endpoint == "https://otlp.example.com/v1/traces"
    assert backend.headers == (("authorization", "Bearer x"),)
    assert None not in {backend.certificate, backend.client_certificate, backend.client_key}
    pairs = (pair.split("=") for pair in variables["OTEL_RESOURCE_ATTRIBUTES"].split(","))
    assert {name: unquote(value) for name, value in pairs} == {
        "deployment.environment.name": "production",
        "k8s.namespace.name": "metadata.namespace",
        "k8s.node.name": "spec.nodeName",
        "k8s.pod.name": "metadata.name",
        "openinference.project.name": 'chats of team "a", b',
    }
    _, variables = accept(CHART / "ci/autoscaled-values.yaml", monkeypatch, tmp_path)
    backend = read_otlp_settings(variables)
    assert backend is not None
    assert (backend.protocol, backend.endpoint) == (
        OtlpProtocol.GRPC, "collector.observability:4317",
    )  # fmt: skip
    assert backend.insecure


LEFT_OUT = {
    "SPANTAP_INBOUND_KEYS": "no key stands in an environment; a file has them",
    "SPANTAP_INTERCEPT_PORT": "it listens on loopback, where nobody else is in a pod",
    "SPANTAP_INTERCEPT_HOSTS": "likewise",
}
"""Settings that the chart does not know, each with the reason."""


def test_chart_and_settings_have_the_same_names() -> None:
    """Every setting is in some rendered environment or left out with a reason; none is made up."""
    settings = {f"SPANTAP_{name.upper()}" for name in Settings.model_fields}
    found = {name for values in CI_FILES for name in rendered(values).environment()}
    found = {name for name in found if name.startswith("SPANTAP_")}
    found |= {
        name
        for name in render({"tls": {"existingSecret": "x"}}).environment()
        if name.startswith("SPANTAP_")
    }
    assert found == settings - set(LEFT_OUT)


OTHER_DEFAULTS = {
    "host": "the Service comes from outside the pod",
    "admin_host": "so do the kubelet and Prometheus",
    "page": "what is recorded is not shown to a cluster unasked",
    "store": "the volume",
    "linger_seconds": "a pod's address is taken out of the Service while SIGTERM comes",
    "drain_seconds": "a rolling update lets long streams end; the grace period has room for it",
    "log_format": "logs of a cluster are read by programs first",
}
"""Settings with another default than the program's, each with the reason."""


def test_defaults_are_the_programs_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What values.yaml says is what the program would do by itself, but for a few with a reason."""
    settings, _ = accept(CHART / "ci/default-values.yaml", monkeypatch, tmp_path)
    own = Settings()
    different = {n for n in Settings.model_fields if getattr(settings, n) != getattr(own, n)}
    assert different == set(OTHER_DEFAULTS)
