"""What the chart's pages say of values is so (``docs/contract/promises.md#chart``)."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json
from tests.deploy.chart import (
    CHART,
    README,
    ask,
    containers_of,
    documented_values,
    pod_specs,
    read_values,
    render,
    with_table,
)
from tests.deploy.tools import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA: dict[str, Any] = decode_json((CHART / "values.schema.json").read_bytes())

PAGES = (
    README,
    ROOT / "docs/kubernetes.md",
    ROOT / "deploy/recipes/README.md",
    CHART / "values.yaml",
)

ATTRIBUTES = {"service.name", "openinference.project.name"}
"""Of spans, though they begin as values do."""


def leaves(values: dict[str, Any], path: str = "") -> Iterator[str]:
    for key, value in values.items():
        below = f"{path}.{key}".strip(".")
        if isinstance(value, dict) and value:
            yield from leaves(value, below)
        else:
            yield below


def test_the_table_of_values_is_true() -> None:
    """It has every line ``# -- ...`` of values.yaml, with the default that is there."""
    text = README.read_text()
    assert with_table(text) == text, "python -m tests.deploy.chart writes it"


def test_every_value_is_documented() -> None:
    """By a line of its own, or by that of the table that it is in."""
    documented = documented_values()
    for leaf in leaves(read_values(CHART / "values.yaml")):
        parts = leaf.split(".")
        assert any(".".join(parts[:n]) in documented for n in range(1, len(parts) + 1)), leaf


def test_no_line_is_about_two_values() -> None:
    """A comment that lost its key would end up in the table at another one."""
    lines = (CHART / "values.yaml").read_text().splitlines()
    for line, after in pairwise(lines):
        if line.strip().startswith("# -- "):
            assert re.match(r" *[A-Za-z0-9]+:", after), line
    assert len(documented_values()) == sum(line.strip().startswith("# -- ") for line in lines)


def knows(path: str) -> bool:
    """Whether a dotted path leads to a value, through what Kubernetes has as well."""
    schema = SCHEMA
    for key in path.split("."):
        if "$ref" in schema or schema.get("type") == "array":
            return True
        if key not in schema.get("properties", {}):
            return False
        schema = schema["properties"][key]
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_values_that_a_page_names_exist(page: Path) -> None:
    """Every dotted name in backquotes, or after --set, that begins as a value does is one."""
    text = page.read_text()
    named = re.findall(r"`([a-z]\w*(?:\.\w+)+)(?::[^`]*)?`", text)
    named += re.findall(r"--set(?:-string)? ([\w.]+)=", text)
    of_ours = [name for name in named if name.split(".")[0] in SCHEMA["properties"]]
    of_ours = [name for name in of_ours if name not in ATTRIBUTES]
    assert [name for name in of_ours if not knows(name)] == []
    assert of_ours or page.name in {"README.md", "values.yaml"}


INSTALLATIONS = [
    (page, command)
    for page in PAGES
    for command in re.findall(r"^helm install ((?:.*\\\n)*.*)", page.read_text(), re.MULTILINE)
]


@pytest.mark.parametrize(("page", "command"), INSTALLATIONS, ids=lambda it: getattr(it, "name", ""))
def test_an_installation_takes_an_image_that_is_there(page: Path, command: str) -> None:
    """As it stands on the page, nothing left to fill in: one that was built, not a release's."""
    words = iter(shlex.split(command.replace("\\\n", "")))
    values: dict[str, Any] = {}
    for option in words:
        if option == "--values":
            values |= read_values(ROOT / next(words))
        elif option == "--set":
            path, _, value = next(words).partition("=")
            table, key = path.split(".")
            values[table] = values.get(table, {}) | {key: value}
    (spec,) = (spec for kind, spec in pod_specs(render(values).things) if kind != "Pod")
    [image] = {container["image"] for container in containers_of(spec)}
    assert image == "registry.example.com/spantap:local"
    assert f"docker build -f deploy/Dockerfile -t {image} ." in PAGES[1].read_text()


def test_no_installation_is_in_running_text() -> None:
    """There it would be checked by nobody."""
    commands = [text for page in PAGES for text in re.findall("helm install ", page.read_text())]
    assert len(commands) == len(INSTALLATIONS) == 3
    assert "helm install" not in (ROOT / "README.md").read_text()


def test_the_policy_that_a_page_has_is_about_the_service() -> None:
    """The values for a gateway that speaks TLS to the pods render, and nothing is left to say."""
    (text,) = re.findall(r"```yaml\n(tls:.*?)```", PAGES[1].read_text(), re.DOTALL)
    (values,) = ask("parse", text=text)
    everything = render(values)
    policy = everything.one("BackendTLSPolicy")
    (target,) = policy["spec"]["targetRefs"]
    assert target["name"] in {thing["metadata"]["name"] for thing in everything.all("Service")}
    assert "BackendTLSPolicy" not in everything.notes


def test_a_path_that_leads_nowhere_is_seen() -> None:
    """The check above tells a value from a slip."""
    assert knows("store.persistence.enabled")
    assert knows("lifecycle.preStop.sleep")
    assert not knows("store.persistent")
