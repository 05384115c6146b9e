"""The chart renders to what Kubernetes and the program take (``deploy.md`` section 5)."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from codec._version import __version__
from codec.jsontext import decode_json
from proxy.app import CUT_SECONDS
from proxy.processes.supervisor import CLOSE_SECONDS, FLUSH_SECONDS
from proxy.settings import Settings, load_settings
from telemetry.otel_environment import check_otel_environment
from telemetry.otlp_settings import OtlpProtocol, read_backend, read_otlp_settings
from telemetry.privacy.switches import read_privacy_switches
from telemetry.store import Store
from telemetry.store_rows import Retention
from tests.deploy.chart import (
    CHART,
    CI_FILES,
    HelmError,
    Rendered,
    ask,
    containers_of,
    example_of,
    pod_specs,
    read_values,
    render,
)
from tests.deploy.tools import ROOT, run, tool
from tests.telemetry.span_rows import make_row
from tests.test_dashboard import SAMPLE_LABELS

every_ci_file = pytest.mark.parametrize("values", CI_FILES, ids=lambda path: path.stem)


@cache
def rendered(values: Path) -> Rendered:
    return render(read_values(values))


@every_ci_file
def test_kubernetes_takes_every_object(values: Path) -> None:
    """Each is valid by the strict schemas of Kubernetes 1.34, or by ours for other kinds."""
    assert ask("judge", objects=list(rendered(values).things)) == []


def test_an_unknown_kind_is_no_success() -> None:
    """The schemas' own tool only warns of kinds that it does not know; here they are wrong."""
    unknown = {"apiVersion": "example.com/v1", "kind": "Unknown", "metadata": {"name": "x"}}
    route = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "spec": {}}
    misspelt = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spek": {}}
    found = ask("judge", objects=[unknown, route, misspelt])
    assert [line.split(" ")[0] for line in found] == ["Unknown", "HTTPRoute", "Service"]


@every_ci_file
def test_helm_lint_is_content(values: Path) -> None:
    """``helm lint --strict`` has nothing to say, not even a warning."""
    assert ask("lint", values=read_values(values)) == []


@every_ci_file
def test_examples_are_as_rendered(values: Path) -> None:
    """A change shows what it does in its diff: ``python -m tests.deploy.chart`` writes them."""
    path, text = example_of(values)
    assert path.read_text() == text


def test_there_is_no_example_of_nothing() -> None:
    """Each file under examples/ belongs to one under ci/."""
    names = {path.stem for path in (CHART / "examples").iterdir()}
    assert names == {path.name.removesuffix("-values.yaml") for path in CI_FILES}


@pytest.mark.parametrize("folder", ["examples", "ci"])
def test_rendered_yaml_is_tidy(folder: str) -> None:
    """No key twice, no stray space, no odd indentation."""
    rules = "line-length: disable, document-start: disable"
    rules += ", indentation: {indent-sequences: whatever}"
    rules += ", comments: {min-spaces-from-content: 1}"
    found = run([
        tool("yamllint"), "--strict", "-d", f"{{extends: default, rules: {{{rules}}}}}",
        CHART / folder,
    ])  # fmt: skip
    assert (found.returncode, found.stdout) == (0, "")


def test_the_package_has_what_an_installation_needs(tmp_path: Path) -> None:
    """Templates, schema, dashboard and README; not the tests' values, nor their examples."""
    archive = ask("package", folder=str(tmp_path))
    names = run(["tar", "tzf", archive]).stdout.split()
    files = {name.removeprefix("spantap/") for name in names}
    assert {"Chart.yaml", "values.yaml", "values.schema.json", "README.md"} <= files
    assert {"dashboards/spantap.json", "templates/NOTES.txt", "templates/_pod.tpl"} <= files
    assert not [name for name in files if name.startswith(("ci/", "examples/"))]


def test_the_chart_is_of_this_version() -> None:
    """``appVersion`` is the program's, and the image's tag where values name none."""
    (chart,) = ask("parse", text=(CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
    deployment = render().one("Deployment")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == f"ghcr.io/spantap/spantap:{__version__}"


# What the program makes of it


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
    "store": "the volume",
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


def test_health_check_hook_asks_the_admin_port() -> None:
    """``helm test`` runs the program's health check with the release's image, by the Service."""
    everything = render()
    (container,) = everything.one("Pod")["spec"]["containers"]
    service = everything.one("Service", "-admin")
    main = everything.one("Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == main["image"]
    assert container["args"] == [
        "healthcheck",
        f"--admin-host={service['metadata']['name']}",
        f"--admin-port={service['spec']['ports'][0]['port']}",
    ]
    help_text = run([Path(sys.executable).with_name("spantap"), "healthcheck", "--help"]).stdout
    assert "--admin-host" in help_text
    assert "--admin-port" in help_text


# What cannot work


def grace(seconds: int, **more: Any) -> dict[str, Any]:
    return {"terminationGracePeriodSeconds": seconds, **more}


def ingress(streaming: str, seconds: int) -> dict[str, Any]:
    return {
        "ingress": {
            "enabled": True,
            "streaming": streaming,
            "hosts": [{"host": "a.example.com"}],
            "timeoutSeconds": seconds,
        }
    }


CLAIM = {"store": {"persistence": {"enabled": True, "existingClaim": "one"}}}

REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        grace(295),
        r"lingerSeconds \(10\) \+ drain.deadlineSeconds \(270\) \+ 15 s .* = 295 s, .*\(295\)",
    ),
    (
        {"drain": {"lingerSeconds": 30, "deadlineSeconds": 600}},
        r"645 s, .* \(300\): set terminationGracePeriodSeconds to more than 645, or lower",
    ),
    (
        grace(300, lifecycle={"preStop": {"sleep": {"seconds": 5}}}),
        r"preStop.sleep.seconds \(5\) \+ .* = 300 s",
    ),
    ({"autoscaling": {"enabled": True, "minReplicas": 11}}, r"minReplicas \(11\) is more than"),
    (
        {"autoscaling": {"enabled": True, "targetCPUUtilizationPercentage": 0}},
        "nothing is looked at: set",
    ),
    (
        {"autoscaling": {"enabled": True}, "resources": {"requests": {"cpu": None}}},
        "share of resources.requests.cpu, which is not set",
    ),
    ({"podDisruptionBudget": {"minAvailable": 2}}, r"minAvailable \(2\) is not less than"),
    ({"podDisruptionBudget": {"minAvailable": "100%"}}, r"minAvailable \(100%\) is not less than"),
    ({"podDisruptionBudget": {"minAvailable": "51%"}}, r"minAvailable \(51%\) is not less than"),
    ({"podDisruptionBudget": {"maxUnavailable": None}}, "neither minAvailable nor maxUnavailable"),
    (
        {"store": {"persistence": {"existingClaim": "one"}}},
        'existingClaim is "one", but store.persistence.enabled is false',
    ),
    ({**CLAIM, "autoscaling": {"enabled": True}}, "one claim serves one pod, but autoscaling"),
    ({**CLAIM, "replicaCount": 2}, "one claim serves one pod, but replicaCount is 2"),
    ({"store": {"size": "1Gi"}}, r"store.maxBytes \(1073741824\) .* store.size \(1Gi, 1073741824"),
    ({"config": {"maxValueBytes": 4000000}}, "one value must fit into a span"),
    (
        {
            "upstreams": [
                {"name": "a", "url": "http://a", "prefix": "/a"},
                {"name": "a", "url": "http://a", "prefix": "/b"},
            ]
        },
        'two upstreams have the name "a"',
    ),
    (
        {
            "upstream": {"existingSecret": "key"},
            "upstreams": [{"name": "a", "url": "http://a", "prefix": "/"}],
        },
        'two upstreams have the prefix "/"',
    ),
    (
        {"upstreams": [{"name": "a", "url": "http://a", "prefix": "/a", "secretKey": "k"}]},
        '"a" has a secretKey and no existingSecret',
    ),
    (
        {"inboundKeys": {"existingSecret": "x", "digests": ["sha256:" + 64 * "0"]}},
        "both set, but spantap reads one file of keys",
    ),
    ({"otel": {"headersSecret": "x"}}, 'otel.headersSecret is "x", but otel.endpoint is empty'),
    ({"otel": {"metrics": {"enabled": True}}}, "neither otel.metrics.endpoint nor otel.endpoint"),
    (
        {"otel": {"endpoint": "collector:4317"}},
        'otel.endpoint is "collector:4317", which only otel.protocol grpc takes',
    ),
    (
        {"otel": {"metrics": {"enabled": True, "endpoint": "collector:4317"}}},
        'otel.metrics.endpoint is "collector:4317", which only otel.protocol grpc takes',
    ),
    ({"ingress": {"enabled": True}}, "ingress.hosts is empty"),
    ({"httpRoute": {"enabled": True}}, "httpRoute.parentRefs is empty"),
    (
        {**ingress("nginx", 900), "config": {"firstByteTimeoutSeconds": 60}},
        r"timeoutSeconds \(900\) is not more than config.idleTimeoutSeconds \(900\)",
    ),
    (
        {**ingress("nginx", 960), "config": {"firstByteTimeoutSeconds": 1800}},
        r"timeoutSeconds \(960\) is not more than config.firstByteTimeoutSeconds \(1800\)",
    ),
    (ingress("alb", 4001), r"timeoutSeconds \(4001\) is more than the 4000 s that an ALB waits"),
]


@pytest.mark.parametrize(("values", "sentence"), REFUSED, ids=[s[:40] for _, s in REFUSED])
def test_what_cannot_work_is_refused(values: dict[str, Any], sentence: str) -> None:
    """The render fails, and says what the values are and which to change."""
    with pytest.raises(HelmError, match=sentence):
        render(values)


def test_every_refusal_is_tried() -> None:
    """As many sentences as the chart can fail with are in the table above."""
    told = (CHART / "templates/_validate.tpl").read_text().count("fail ")
    sentences = {re.sub(r"[^a-z]", "", sentence) for _, sentence in REFUSED}
    more = 2 + 1 + 1  # the drain formula has three rows, endpoints and timeouts have two
    assert len(sentences) - more == told - 1  # that of a name is tried below


def test_the_drain_formula_has_room_for_the_programs_end() -> None:
    """To cut, to send and to close, and a second between; one second more is enough."""
    assert render(grace(296)).one("Deployment")
    text = (CHART / "templates/_validate.tpl").read_text()
    seconds = re.search(r'"spantap.endSeconds" -\}\}(\d+)\{\{-', text)
    assert seconds
    assert int(seconds[1]) == CUT_SECONDS + FLUSH_SECONDS + CLOSE_SECONDS + 1


@pytest.mark.parametrize(
    "values",
    [
        {"lifecycle": {"preStop": None}},
        {"lifecycle": None},
        {"resources": None},
        {"podDisruptionBudget": {"minAvailable": None}},
        {"podDisruptionBudget": {"minAvailable": 0, "maxUnavailable": None}},
        {"podDisruptionBudget": {"enabled": False, "maxUnavailable": None}},
        {"otel": {"headersSecret": "x", "metrics": {"enabled": True, "endpoint": "http://a"}}},
        {"podDisruptionBudget": {"minAvailable": "50%"}},
        {**ingress("alb", 4000)},
        {**ingress("nginx", 960), "config": {"idleTimeoutSeconds": 0}},
    ],
    ids=str,
)
def test_what_can_work_is_not_refused(values: dict[str, Any]) -> None:
    """What is left out is left out, and limits are not one too low."""
    everything = render(values)
    assert ask("judge", objects=list(everything.things)) == []


def test_nothing_to_scale_by_is_told() -> None:
    """Without resources there is no share of them either."""
    with pytest.raises(HelmError, match=r"share of resources\.requests\.cpu"):
        render({"resources": None, "autoscaling": {"enabled": True}})


NOTED: list[tuple[dict[str, Any], str]] = [
    ({"upstream": {"existingSecret": "key"}}, "whoever reaches the Service spends it"),
    ({}, "spans are kept in the pods and sent nowhere, and go with their pod."),
    ({"store": {"persistence": {"enabled": True}}}, "sent nowhere."),
    ({"otel": {"endpoint": "http://a"}}, "The store is an emptyDir"),
    ({"replicaCount": 1}, "There is one pod"),
    (
        {
            "autoscaling": {"enabled": True},
            "store": {
                "persistence": {"enabled": True, "retentionPolicy": {"whenScaled": "Delete"}}
            },
        },
        "whenScaled is Delete",
    ),
    ({"autoscaling": {"enabled": True}}, "looks at CPU alone"),
    (
        {"autoscaling": {"enabled": True, "openExchanges": {"enabled": True}}},
        "an adapter has to get\n  spantap_exchanges_open of each pod in another way",
    ),
    ({"podDisruptionBudget": {"maxUnavailable": 0}}, "maxUnavailable is 0:"),
    ({"podDisruptionBudget": {"maxUnavailable": "0%"}}, "maxUnavailable is 0%:"),
    (
        {**ingress("nginx", 960), "config": {"firstByteTimeoutSeconds": 0}},
        "config.firstByteTimeoutSeconds is 0, without end; the ingress cuts",
    ),
    (
        {**ingress("nginx", 960), "config": {"idleTimeoutSeconds": 0}},
        "config.idleTimeoutSeconds is 0, without end; the ingress cuts",
    ),
    (
        {"tls": {"existingSecret": "x"}, "httpRoute": {"enabled": True, "parentRefs": [{}]}},
        "without a BackendTLSPolicy",
    ),
    ({"config": {"host": "127.0.0.1"}}, "neither the kubelet nor a Service reaches the pods"),
    ({"prometheusRule": {"enabled": True}}, "the alerts look for the job"),
    ({"ingress": {"enabled": True, "hosts": [{"host": "a.example.com"}]}}, "has no annotations"),
    ({}, "image.digest pins it"),
]


@pytest.mark.parametrize(("values", "words"), NOTED, ids=[words for _, words in NOTED])
def test_what_may_not_be_wanted_is_said(values: dict[str, Any], words: str) -> None:
    """The notes after an installation have a line about it, and none where all is well."""
    assert words in render(values).notes
    well = {
        "image": {"digest": "sha256:" + 64 * "0"},
        "otel": {"endpoint": "http://a"},
        "store": {"persistence": {"enabled": True}},
    }
    assert "Worth knowing" not in render(well).notes


def test_notes_say_where_it_is() -> None:
    """The base URL for clients in the cluster, of the ingress and of the gateway."""
    ingress = rendered(CHART / "ci/ingress-values.yaml").notes
    assert "OPENAI_BASE_URL=http://demo-spantap.llm:4000/v1" in ingress
    assert "OPENAI_BASE_URL=https://llm.example.com/v1" in ingress
    assert ingress.startswith(f"spantap {__version__} relays to https://api.openai.com.")
    keys = rendered(CHART / "ci/keys-values.yaml").notes
    assert "relays to https://api.openai.com, /groq to https://api.groq.com/openai/v1, /loc" in keys
    upstreams = [{"name": "a", "url": "http://a", "prefix": "/a"}]
    upstreams += [{"name": "all", "url": "http://all", "prefix": "/"}]
    assert "relays to http://all, /a to http://a." in render({"upstreams": upstreams}).notes
    gateway = rendered(CHART / "ci/gateway-api-values.yaml").notes
    assert "OPENAI_BASE_URL=https://demo-spantap.llm:4000/v1" in gateway
    assert "OPENAI_BASE_URL=https://llm.example.com/openai/v1" in gateway


# Details that streams depend on


@pytest.mark.parametrize(
    ("streaming", "expected"),
    [
        ("nginx", {"nginx.ingress.kubernetes.io/proxy-buffering": "off",
                   "nginx.ingress.kubernetes.io/proxy-read-timeout": "1200"}),
        ("haproxy", {"haproxy.org/timeout-server": "1200s"}),
        ("alb", {"alb.ingress.kubernetes.io/load-balancer-attributes":
                 "idle_timeout.timeout_seconds=1200"}),
    ],
)  # fmt: skip
def test_an_ingress_lets_streams_through(streaming: str, expected: dict[str, str]) -> None:
    """Annotations for the controller: no buffering, and a timeout above the silence we allow."""
    ingress = {"enabled": True, "streaming": streaming, "timeoutSeconds": 1200}
    ingress["hosts"] = [{"host": "a.example.com"}]
    annotations = render({"ingress": ingress}).one("Ingress")["metadata"]["annotations"]
    assert expected.items() <= annotations.items()
    name = next(iter(expected))
    ingress["annotations"] = {name: "mine"}
    annotations = render({"ingress": ingress}).one("Ingress")["metadata"]["annotations"]
    assert annotations[name] == "mine"


def test_a_gateway_cuts_no_stream() -> None:
    """An HTTPRoute's timeouts hold for a request with its whole stream: there are none."""
    (rule,) = rendered(CHART / "ci/gateway-api-values.yaml").one("HTTPRoute")["spec"]["rules"]
    assert rule["timeouts"] == {"request": "0s", "backendRequest": "0s"}


def test_a_network_policy_lets_out_what_the_settings_name() -> None:
    """DNS, 443, the ports of upstreams and of OTLP, and nothing else."""
    values = {
        "networkPolicy": {"enabled": True},
        "upstream": {"baseUrl": "http://vllm.models:8000/v1"},
        "upstreams": [{"name": "a", "url": "http://plain.example.com", "prefix": "/a"}],
        "otel": {"endpoint": "collector:4317", "protocol": "grpc"},
    }
    dns, rest = render(values).one("NetworkPolicy")["spec"]["egress"]
    assert [(p["port"], p["protocol"]) for p in dns["ports"]] == [(53, "UDP"), (53, "TCP")]
    assert [p["port"] for p in rest["ports"]] == [443, 8000, 80, 4317]


def test_services_keep_the_admin_port_inside() -> None:
    """A LoadBalancer has the traffic port alone; the admin port's Service stays in the cluster."""
    everything = render({"service": {"type": "LoadBalancer"}})
    admin = everything.one("Service", "-admin")
    (traffic,) = (s for s in everything.all("Service") if s is not admin)
    assert [port["targetPort"] for port in traffic["spec"]["ports"]] == ["traffic"]
    assert (admin["spec"]["type"], admin["spec"]["clusterIP"]) == ("ClusterIP", "None")


def test_selectors_find_the_pods_and_no_others() -> None:
    """Services, budget and policy select the pods that relay, not that of ``helm test``."""
    everything = rendered(CHART / "ci/autoscaled-values.yaml")
    relays = everything.one("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    test = everything.one("Pod")["metadata"]["labels"].items()
    selectors = [service["spec"]["selector"] for service in everything.all("Service")]
    selectors.append(everything.one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"])
    selectors.append(everything.one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"])
    selectors.append(everything.one("Deployment")["spec"]["selector"]["matchLabels"])
    for selector in selectors:
        assert selector.items() <= relays
        assert not selector.items() <= test
    (_, admin) = everything.one("NetworkPolicy")["spec"]["ingress"]
    assert admin["from"][-1]["podSelector"]["matchLabels"].items() <= test


def test_names_meet() -> None:
    """Ports, ConfigMaps, claims and volumes that are named exist."""
    for values in CI_FILES:
        everything = rendered(values)
        maps = {thing["metadata"]["name"] for thing in everything.all("ConfigMap")} | {"proxies"}
        for kind, spec in pod_specs(everything.things):
            volumes = {volume["name"] for volume in spec.get("volumes", [])}
            if kind == "StatefulSet":
                (workload,) = everything.all(kind)
                templates = workload["spec"].get("volumeClaimTemplates", [])
                volumes |= {template["metadata"]["name"] for template in templates}
                assert everything.one("Service", workload["spec"]["serviceName"])
            for container in containers_of(spec):
                mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
                assert mounted <= volumes
                sources = [
                    s.get("configMapRef", {}).get("name") for s in container.get("envFrom", [])
                ]
                assert set(sources) <= maps
                ports = {port["name"] for port in container.get("ports", [])}
                for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
                    if probe in container:
                        assert container[probe]["httpGet"]["port"] in ports


def test_a_change_of_settings_restarts_pods() -> None:
    """Settings and digests are in a checksum of the pod template; what is not theirs is not."""

    def checksum(values: dict[str, Any]) -> str:
        template = render(values).one("Deployment")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    same = checksum({})
    assert checksum({"replicaCount": 5}) == same
    assert checksum({"config": {"workers": 2}}) != same
    assert checksum({"inboundKeys": {"digests": ["sha256:" + 64 * "0"]}}) != checksum(
        {"inboundKeys": {"digests": ["sha256:" + 64 * "1"]}}
    )


# Names and words of whoever installs

ODD: dict[str, Any] = {
    "fullnameOverride": "true",
    "nameOverride": "1e3",
    "commonLabels": {"example.com/odd": "0123"},
    "serviceAccount": {"name": "0123"},
    "upstream": {"existingSecret": "123", "secretKey": "0x1f", "caSecret": "1e3", "caKey": "12"},
    "upstreams": [
        {"name": "a", "url": "http://a", "prefix": "/a", "existingSecret": "1", "secretKey": "2"}
    ],
    "inboundKeys": {"existingSecret": "0123", "secretKey": "1.0"},
    "tls": {"existingSecret": "456"},
    "otel": {"endpoint": "http://a", "headersSecret": "789", "headersKey": "1.5", "caSecret": "9"},
    "service": {"appProtocol": "null"},
    "ingress": {
        "enabled": True,
        "className": "yes",
        "hosts": [{"host": "1.2", "paths": [{"path": "/a: b"}]}],
    },
    "httpRoute": {"enabled": True, "parentRefs": [{"name": "g"}], "path": "/a: b # c"},
    "priorityClassName": "123",
    "runtimeClassName": "off",
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboard": {"enabled": True},
    "networkPolicy": {"enabled": True},
    "autoscaling": {"enabled": True, "openExchanges": {"enabled": True, "metricName": "_1"}},
}


@pytest.mark.parametrize("persistence", [{}, {"enabled": True, "storageClass": "123"}], ids=str)
def test_names_that_look_like_numbers_stay_text(persistence: dict[str, Any]) -> None:
    """Whatever a name looks like, Kubernetes reads it as text, and it is the one that was given."""
    values = {**ODD, "store": {"persistence": persistence}}
    everything = render(values, release="123", namespace="456")
    assert ask("judge", objects=list(everything.things)) == []
    assert {thing["metadata"]["namespace"] for thing in everything.things} == {"456"}
    assert everything.environment()["UPSTREAM_KEY"] == "Secret/123/0x1f"
    assert everything.environment()["UPSTREAM_KEY_0"] == "Secret/1/2"
    (spec,) = (spec for kind, spec in pod_specs(everything.things) if kind != "Pod")
    secrets = {v["secret"]["secretName"] for v in spec["volumes"] if "secret" in v}
    assert secrets == {"0123", "456", "1e3", "9"}
    (rule,) = everything.one("HTTPRoute")["spec"]["rules"]
    assert rule["matches"][0]["path"]["value"] == "/a: b # c"


def test_an_existing_claim_may_be_a_number() -> None:
    """Its name too is text; so is that of a Secret that the chart makes, and of its key."""
    values = {**CLAIM, "replicaCount": 1, "fullnameOverride": "null"}
    values["store"] = {"persistence": {"enabled": True, "existingClaim": "123"}}
    values["inboundKeys"] = {"digests": ["sha256:" + 64 * "0"], "secretKey": "123"}
    everything = render(values)
    assert ask("judge", objects=list(everything.things)) == []
    assert set(everything.one("Secret")["stringData"]) == {"123"}


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("a.b", "a-b-spantap"),
        ("spantap.v1", "spantap-v1"),
        (45 * "a" + ".b-", 45 * "a" + "-b--span"),
    ],
)
def test_a_release_with_dots_names_services(release: str, name: str) -> None:
    """No name has a dot, which a Service's may not, and none ends in what is no letter."""
    everything = render(release=release)
    names = [thing["metadata"]["name"] for thing in everything.things]
    assert {n.removesuffix("-admin").removesuffix("-test") for n in names} == {name[:52]}


def test_a_cut_name_ends_in_a_letter() -> None:
    """Where the cut is behind a dot or a hyphen, that goes as well."""
    everything = render(release=51 * "a" + ".b")
    assert everything.one("Service", "-admin")["metadata"]["name"] == 51 * "a" + "-admin"


def test_a_name_that_no_service_may_have_is_refused() -> None:
    """It begins with a letter; another name is one value away."""
    with pytest.raises(HelmError, match='"123-spantap" does not begin with a letter'):
        render(release="123")


def test_no_variable_stands_twice() -> None:
    """One of extraEnv takes the place of the chart's: the server's apply refuses two."""
    values = {
        "upstream": {"existingSecret": "key"},
        "otel": {
            "endpoint": "http://a",
            "headersSecret": "x",
            "resourceAttributes": {"service.namespace": "mine"},
        },
    }

    def variables(extra: list[dict[str, str]]) -> list[dict[str, Any]]:
        deployment = render({**values, "extraEnv": extra}).one("Deployment")
        found = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        return list(found)

    own = [entry["name"] for entry in variables([])]
    assert {"POD_NAME", "UPSTREAM_KEY", "OTEL_EXPORTER_OTLP_HEADERS"} <= set(own)
    theirs = [{"name": name, "value": "mine"} for name in ["FURTHER", *own]]
    found = variables(theirs)
    assert sorted(entry["name"] for entry in found) == sorted(["FURTHER", *own])
    assert all(entry["value"] == "mine" for entry in found)
    (pod_name, *_) = variables([{"name": "POD_NAME", "value": "mine"}])[2:]
    assert pod_name == {"name": "POD_NAME", "value": "mine"}  # before what refers to it


def test_no_label_stands_twice() -> None:
    """Of labels that are given twice one is taken; those that select pods are the chart's."""
    labels = {"app.kubernetes.io/component": "b", "app.kubernetes.io/name": "c", "team": "llm"}
    monitored = {"enabled": True, "labels": {**labels, "team": "own"}}
    values = {
        "commonLabels": labels,
        "podLabels": {**labels, "team": "pods"},
        "podAnnotations": {"checksum/config": "mine"},
        "serviceMonitor": monitored,
        "prometheusRule": {**monitored, "alertLabels": {"severity": "page"}},
        "dashboard": monitored,
    }
    everything = render(values)
    template = everything.one("Deployment")["spec"]["template"]["metadata"]
    selector = everything.one("Deployment")["spec"]["selector"]["matchLabels"]
    assert selector.items() <= template["labels"].items()
    assert template["labels"]["team"] == "pods"
    assert template["annotations"]["checksum/config"] != "mine"
    wanted = everything.one("ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
    found = [s for s in everything.all("Service") if wanted <= s["metadata"]["labels"].items()]
    assert [service["metadata"]["name"] for service in found] == ["demo-spantap-admin"]
    assert everything.one("PrometheusRule")["metadata"]["labels"]["team"] == "own"
    (group,) = everything.one("PrometheusRule")["spec"]["groups"]
    assert {rule["labels"]["severity"] for rule in group["rules"]} == {"page"}


def test_another_way_takes_the_place_of_the_charts() -> None:
    """A probe asks in one way only, and a Deployment that starts anew does not roll."""
    command = {"command": ["spantap", "healthcheck"]}
    values = {"updateStrategy": {"type": "Recreate"}, "livenessProbe": {"exec": command}}
    deployment = render(values).one("Deployment")["spec"]
    assert deployment["strategy"] == {"type": "Recreate"}
    container = deployment["template"]["spec"]["containers"][0]
    assert container["livenessProbe"]["exec"] == command
    assert "httpGet" not in container["livenessProbe"]
    assert "httpGet" in container["readinessProbe"]


def test_the_pod_of_helm_test_finds_a_node_too() -> None:
    """It goes where the others may go."""
    values = {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "priorityClassName": "important",
        "runtimeClassName": "gvisor",
    }
    pod = render(values).one("Pod")["spec"]
    assert {key: pod[key] for key in values} == values


# What is measured


def test_alerts_are_about_metrics_that_exist() -> None:
    """Each metric and label in a rule is in the one table of metrics; the job is the Service's."""
    everything = rendered(CHART / "ci/monitored-values.yaml")
    groups = everything.one("PrometheusRule")["spec"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    job = everything.one("Service", "-admin")["metadata"]["name"]
    assert len(rules) == 10
    for rule in rules:
        names = re.findall(r"\b(?:spantap|gen_ai)_\w+(?=[{\[])", rule["expr"])
        assert names
        assert set(names) <= set(SAMPLE_LABELS), rule["expr"]
        labels = {"namespace", "pod"}.union(*(SAMPLE_LABELS[name] for name in names))
        grouped = re.findall(r"by \(([^)]*)\)", rule["expr"])
        for label in re.split(r",\s*", ", ".join(grouped)):
            assert not label or label in labels
        if "alert" in rule:
            assert rule["expr"].count(f'{{namespace="llm", job="{job}"') == len(names)
            shown = re.findall(r"\$labels\.(\w+)", rule["annotations"]["description"])
            assert set(shown) <= set(re.split(r",\s*", ", ".join(grouped)))
            assert rule["labels"]["team"] == "llm"


def test_a_store_that_fills_up_is_told_before_it_drops(tmp_path: Path) -> None:
    """In an outage the alert comes before the first span is lost, and not while spans are sent."""
    values = {"prometheusRule": {"enabled": True}, "store": {"maxBytes": 8 << 20}}
    (group,) = render(values).one("PrometheusRule")["spec"]["groups"]
    (rule,) = (r for r in group["rules"] if r["alert"] == "SpantapStoreFillsUp")
    product, _, limit = rule["expr"].rpartition(" > ")
    assert re.sub(r"\w+ by \(pod\) \(\w+_store_(\w+)\{[^,]*, [^,}]*(?:, (.*?))?\}\)", r"\1 \2",
                  product) == 'size_bytes  * spans state="pending" / spans '  # fmt: skip

    def fires(store: Store) -> bool:
        counts = store.counts()
        spans = counts.pending + counts.delivered + counts.rejected + counts.kept
        return counts.size_bytes * counts.pending / spans > int(limit)

    numbers = iter(range(1, 10_000))
    retention = Retention(max_bytes=8 << 20, max_age_ns=2**62)
    with Store.open(tmp_path / "traces.db", retention=retention) as store:

        def add() -> int:
            rows = [make_row(next(numbers), padding_bytes=16 << 10) for _ in range(10)]
            store.add(rows)
            lost = (step := store.prune(0)).lost
            while step.more:
                lost += (step := store.prune(0)).lost
            return lost

        for _ in range(100):  # a backend that takes everything: full of what was sent
            assert add() == 0
            store.mark_delivered([s.seq for s in store.take(1000, 2**40, 2**62)])
            assert not fires(store)
        assert store.counts().delivered < 1000
        told = 0
        while add() == 0:  # an outage
            told += fires(store)
    assert told > 5


def test_the_autoscaler_counts_what_is_measured() -> None:
    """The custom metric is one that spantap has, and the scale-down window is five minutes."""
    scaler = rendered(CHART / "ci/autoscaled-values.yaml").one("HorizontalPodAutoscaler")["spec"]
    assert scaler["metrics"][1]["pods"]["metric"]["name"] in SAMPLE_LABELS
    assert scaler["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 300


def test_the_dashboard_is_grafanas() -> None:
    """The chart's dashboard is a copy of deploy/grafana/spantap.json."""
    original = (ROOT / "deploy/grafana/spantap.json").read_bytes()
    assert (CHART / "dashboards/spantap.json").read_bytes() == original
    shipped = rendered(CHART / "ci/monitored-values.yaml").one("ConfigMap", "-dashboard")
    assert decode_json(shipped["data"]["spantap.json"]) == decode_json(original)


def test_the_monitor_selects_the_admin_service() -> None:
    """By labels that the admin port's Service has and the traffic port's has not."""
    everything = rendered(CHART / "ci/monitored-values.yaml")
    wanted = everything.one("ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
    found = [s for s in everything.all("Service") if wanted <= s["metadata"]["labels"].items()]
    assert [service["metadata"]["name"] for service in found] == ["demo-spantap-admin"]
    (endpoint,) = everything.one("ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in found[0]["spec"]["ports"]}
