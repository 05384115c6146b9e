"""What cannot work is refused with a sentence; what may not be wanted is told in the notes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from codec._version import __version__
from proxy.app import CUT_SECONDS
from proxy.processes.supervisor import CLOSE_SECONDS, FLUSH_SECONDS
from tests.deploy.chart import (
    CHART,
    HelmError,
    ask,
    render,
    rendered,
)


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
    (
        {"store": {"size": "4Gi"}},
        r"twice .*maxSpoolBytes \(2147483648\) are 4311744512 bytes, .* \(4Gi, 4294967296 bytes\)",
    ),
    (
        {"store": {"size": "3Gi", "persistence": {"enabled": True}}},
        r"store.maxBytes \(1073741824\), the reserve .* are 3238002688 bytes",
    ),
    ({"config": {"maxValueBytes": 4000000}}, "one value must fit into a span"),
    ({"upstream": {"existingSecret": "one"}}, "upstream.baseUrl is empty: name the provider's URL"),
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
            "upstream": {"baseUrl": "https://a", "existingSecret": "key"},
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
    ({"page": {"enabled": True}}, "page.existingSecret is empty, so that whoever reaches a pod"),
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
    more = 2 + 1 + 1 + 1  # the drain formula has three rows, room, endpoints and timeouts have two
    assert len(sentences) - more == told - 1  # that of a name: test_chart_names.py


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
        {"store": {"size": "4112Mi"}},
        {"store": {"size": "2064Mi", "maxSpoolBytes": 0}},
        {"store": {"size": "3088Mi", "persistence": {"enabled": True}}},
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
    (
        {"upstream": {"baseUrl": "https://a", "existingSecret": "key"}},
        "whoever reaches the Service spends it",
    ),
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
    *([({}, "No release has pushed this one: build\n  your own")] if "dev" in __version__ else []),
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
    assert ingress.startswith(f"spantap {__version__} relays to each API's own provider.")
    keys = rendered(CHART / "ci/keys-values.yaml").notes
    assert "relays to https://api.openai.com, /groq to https://api.groq.com/openai/v1, /loc" in keys
    upstreams = [{"name": "a", "url": "http://a", "prefix": "/a"}]
    upstreams += [{"name": "all", "url": "http://all", "prefix": "/"}]
    assert "relays to http://all, /a to http://a." in render({"upstreams": upstreams}).notes
    gateway = rendered(CHART / "ci/gateway-api-values.yaml").notes
    assert "OPENAI_BASE_URL=https://demo-spantap.llm:4000/v1" in gateway
    assert "OPENAI_BASE_URL=https://llm.example.com/openai/v1" in gateway


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, True),
        ({"replicaCount": 1}, False),
        ({"replicaCount": 1, "autoscaling": {"enabled": True}}, True),
    ],
)
def test_the_notes_say_that_each_pod_has_a_store(values: dict[str, Any], says: bool) -> None:
    """Where there may be several: `traces` in one of them shows its calls alone."""
    assert ("Each pod has its own store" in render(values).notes) == says
