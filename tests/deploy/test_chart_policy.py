"""What the chart promises of every installation (``docs/contract/promises.md#chart``)."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from telemetry.store.disk_reserve import RESERVE_BYTES
from telemetry.store.rescue import MAX_DAMAGED_KEPT
from tests.deploy.chart import (
    CI_FILES,
    NAMESPACE,
    Rendered,
    containers_of,
    pod_specs,
    read_values,
    render,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

every_ci_file = pytest.mark.parametrize("values", CI_FILES, ids=lambda path: path.stem)


@cache
def rendered(values: Path) -> Rendered:
    return render(read_values(values))


RESTRICTED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
    "projected", "secret",
}  # fmt: skip
"""The types of volumes that the restricted profile allows."""

NAMES_OF_HEADERS = {"SPANTAP_HEADERS", "SPANTAP_RECORD_HEADERS"}
"""Variables with names of headers, not with their values."""


def needed_on_disk(variables: Mapping[str, str], damaged: int = 1) -> int:
    """What the store's volume may come to hold, in bytes: see docs/kubernetes.md."""
    store, spool = (int(variables[f"SPANTAP_{name}_BYTES"]) for name in ("STORE_MAX", "MAX_SPOOL"))
    return (1 + damaged) * store + RESERVE_BYTES + spool


def breaches(spec: dict[str, Any]) -> list[str]:
    """How a pod breaks the restricted profile of the Pod Security Standards."""
    found = [f"{key} is shared" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    pod = spec.get("securityContext", {})
    for volume in spec.get("volumes", []):
        found += [f"volume {kind}" for kind in set(volume) - {"name"} - RESTRICTED_VOLUMES]
    for container in containers_of(spec):
        own = container.get("securityContext", {})
        both = {**pod, **own}
        if both.get("runAsNonRoot") is not True or both.get("runAsUser", 1) == 0:
            found.append("it may be root")
        if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
            found.append("privileges may grow")
        capabilities = own.get("capabilities", {})
        if capabilities.get("drop") != ["ALL"] or capabilities.get("add"):
            found.append("capabilities are kept")
        if both.get("seccompProfile", {}).get("type") not in {"RuntimeDefault", "Localhost"}:
            found.append("system calls are not filtered")
        found += [f"port of the host {port['hostPort']}" for port in container.get("ports", [])
                  if "hostPort" in port]  # fmt: skip
    return found


def test_breaches_are_seen() -> None:
    """The check below finds each way to break the profile."""
    loose = {"containers": [{"securityContext": {"privileged": True}, "ports": [{"hostPort": 1}]}]}
    assert len(breaches(loose)) == 5
    assert breaches({"hostNetwork": True, "containers": [], "volumes": [{"hostPath": {}}]}) == [
        "hostNetwork is shared", "volume hostPath",
    ]  # fmt: skip


@every_ci_file
def test_pods_keep_to_the_restricted_profile(values: Path) -> None:
    """Every pod of the chart, that of ``helm test`` included."""
    for kind, spec in pod_specs(rendered(values).things):
        assert breaches(spec) == [], kind


@every_ci_file
def test_pods_are_tighter_than_that(values: Path) -> None:
    """A read-only root, no token, a user with a number, no variables of Services."""
    for _, spec in pod_specs(rendered(values).things):
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["fsGroup"]) == (
            65532,
            65532,
        )
        for container in containers_of(spec):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True


@every_ci_file
def test_every_volume_that_is_written_to_has_a_size(values: Path) -> None:
    """The store and the temporary files; the latter are in memory."""
    for kind, spec in pod_specs(rendered(values).things):
        empty = {v["name"]: v["emptyDir"] for v in spec.get("volumes", []) if "emptyDir" in v}
        assert all(volume["sizeLimit"] for volume in empty.values())
        if kind != "Pod":
            assert empty["tmp"]["medium"] == "Memory"
            assert ("store" in empty) == (kind == "Deployment")


def test_the_volume_has_room_for_damaged_stores_and_the_spool() -> None:
    """By default for as many as are kept, beside the new one, the reserve and the spool."""
    everything = render()
    (volume,) = (
        v for v in everything.one("Deployment")["spec"]["template"]["spec"]["volumes"]
        if v["name"] == "store"
    )  # fmt: skip
    room = int(volume["emptyDir"]["sizeLimit"].removesuffix("Gi")) << 30
    assert room > needed_on_disk(everything.environment(), damaged=MAX_DAMAGED_KEPT)


@every_ci_file
def test_the_grace_period_has_room_for_the_end(values: Path) -> None:
    """What a preStop hook sleeps, linger, drain and the end together are less than it."""
    everything = rendered(values)
    variables = everything.environment()
    for kind, spec in pod_specs(everything.things):
        if kind != "Pod":
            sleep = spec["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {})
            linger, drain = (
                int(variables[f"SPANTAP_{name}_SECONDS"]) for name in ("LINGER", "DRAIN")
            )
            needed = sleep.get("seconds", 0) + linger + drain + 15
            assert needed < spec["terminationGracePeriodSeconds"]


@every_ci_file
def test_an_update_takes_no_pod_before_another_is_ready(values: Path) -> None:
    """A Deployment surges; pods of a StatefulSet go one by one, with their claims."""
    for thing in rendered(values).things:
        if thing["kind"] == "Deployment":
            rolling = thing["spec"]["strategy"]["rollingUpdate"]
            assert rolling == {"maxSurge": 1, "maxUnavailable": 0}
        if thing["kind"] == "StatefulSet":
            assert thing["spec"]["updateStrategy"] == {"type": "RollingUpdate"}


@every_ci_file
def test_memory_is_promised_and_processors_are_not_limited(values: Path) -> None:
    """The memory limit equals the request; a limit of CPU would delay chunks."""
    for _, spec in pod_specs(rendered(values).things):
        for container in containers_of(spec):
            if container["name"] in {"spantap", "healthcheck"}:
                resources = container["resources"]
                assert resources["requests"]["memory"] == resources["limits"]["memory"]
                assert "cpu" in resources["requests"]
                assert "cpu" not in resources["limits"]


@every_ci_file
def test_probes_ask_different_questions(values: Path) -> None:
    """Liveness asks what never depends on a backend; readiness asks what says no while draining."""
    for kind, spec in pod_specs(rendered(values).things):
        if kind != "Pod":
            container = spec["containers"][0]
            assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "admin"}
            assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "admin"}


@every_ci_file
def test_the_image_is_named_in_full(values: Path) -> None:
    """With its registry, and by a digest or a tag that is not ``latest``."""
    for _, spec in pod_specs(rendered(values).things):
        for container in containers_of(spec):
            image = container["image"]
            assert re.fullmatch(r"[^/]+\.[^/]+/.+(@sha256:[0-9a-f]{64}|:(?!latest$)[^:/@]+)", image)


@every_ci_file
def test_no_secret_is_in_plain(values: Path) -> None:
    """A Secret of the chart's holds digests alone, and no variable has a key but by reference."""
    everything = rendered(values)
    for secret in everything.all("Secret"):
        (text,) = secret["stringData"].values()
        assert re.fullmatch(r"(sha256:[0-9a-f]{64}\s?)+", text)
    for name, value in everything.environment().items():
        if re.search(r"HEADERS$|UPSTREAM_KEY", name) and name not in NAMES_OF_HEADERS:
            assert value.startswith("Secret/")


@every_ci_file
def test_files_of_secrets_are_the_groups_to_read(values: Path) -> None:
    """Nobody else can, and nobody can write."""
    for _, spec in pod_specs(rendered(values).things):
        secrets = [volume for volume in spec.get("volumes", []) if "secret" in volume]
        assert all(volume["secret"]["defaultMode"] == 0o440 for volume in secrets)
        mounts = {m["name"]: m for c in spec["containers"] for m in c.get("volumeMounts", [])}
        assert all(mounts[volume["name"]]["readOnly"] for volume in secrets)


@every_ci_file
def test_a_budget_is_there_where_there_is_more_than_one_pod(values: Path) -> None:
    """It lets pods that are not ready go, and always leaves a node to be drained."""
    everything = rendered(values)
    scaler = everything.all("HorizontalPodAutoscaler")
    workload = (everything.all("Deployment") + everything.all("StatefulSet"))[0]["spec"]
    least = scaler[0]["spec"]["minReplicas"] if scaler else workload["replicas"]
    assert bool(scaler) != ("replicas" in workload)
    budgets = everything.all("PodDisruptionBudget")
    assert len(budgets) == (1 if least > 1 else 0)
    for budget in budgets:
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        assert ("minAvailable" in budget["spec"]) != ("maxUnavailable" in budget["spec"])


@every_ci_file
def test_pods_are_spread(values: Path) -> None:
    """Over nodes at least, by a selector that means something."""
    for kind, spec in pod_specs(rendered(values).things):
        if kind != "Pod":
            constraints = spec["topologySpreadConstraints"]
            assert "kubernetes.io/hostname" in {c["topologyKey"] for c in constraints}
            assert all(c["labelSelector"]["matchLabels"] for c in constraints)


@every_ci_file
def test_a_store_is_never_shared(values: Path) -> None:
    """A claim that several pods could open at once would have two owners."""
    everything = rendered(values)
    for workload in everything.all("StatefulSet"):
        spec = workload["spec"]
        for template in spec.get("volumeClaimTemplates", []):
            assert set(template["spec"]["accessModes"]) <= {"ReadWriteOnce", "ReadWriteOncePod"}
        if "volumeClaimTemplates" not in spec:
            assert spec["replicas"] == 1
    for workload in everything.all("Deployment"):
        volumes = workload["spec"]["template"]["spec"]["volumes"]
        assert not [volume for volume in volumes if "persistentVolumeClaim" in volume]


@every_ci_file
def test_objects_are_labelled(values: Path) -> None:
    """All but those that somebody else wrote say what they belong to, and where they are."""
    for thing in rendered(values).things:
        if "beside" not in thing["metadata"]["name"]:
            labels = thing["metadata"]["labels"]
            assert labels["app.kubernetes.io/instance"] == "demo"
            assert labels["app.kubernetes.io/managed-by"] == "Helm"
            assert thing["metadata"]["namespace"] == NAMESPACE


@every_ci_file
def test_names_fit(values: Path) -> None:
    """No name of an object is longer than a label may be, and none comes twice in its kind."""
    names = [(thing["kind"], thing["metadata"]["name"]) for thing in rendered(values).things]
    assert len(names) == len(set(names))
    assert all(len(name) <= 63 for _, name in names)


def test_long_names_are_cut() -> None:
    """The longest name that a release may have leaves room for what stands behind it."""
    everything = render({"fullnameOverride": 52 * "x"})
    assert all(len(thing["metadata"]["name"]) <= 63 for thing in everything.things)
