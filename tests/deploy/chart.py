"""The chart as tests see it: what values render to, as objects; and what is generated from it.

``python -m tests.deploy.chart`` writes what is generated anew: the chart's ``examples/``, and the
table of values in its README. It needs the tools of ``make deploy``.
"""

from __future__ import annotations

import atexit
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from codec.text.jsontext import decode_json, encode_json
from tests.deploy.tools import ROOT, tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = (
    "CHART",
    "CI_FILES",
    "NAMESPACE",
    "HelmError",
    "Rendered",
    "ask",
    "containers_of",
    "documented_values",
    "example_of",
    "pod_specs",
    "read_values",
    "render",
    "rendered",
    "with_table",
)

CHART = ROOT / "deploy/helm/spantap"
README = CHART / "README.md"
CI_FILES = sorted((CHART / "ci").glob("*-values.yaml"))
"""Values with which the chart is tried; each has its rendered text under ``examples/``."""

RELEASE, NAMESPACE = "demo", "llm"

Thing = dict[str, Any]
"""An object of Kubernetes."""


class HelmError(Exception):
    """Helm, or a schema, said no; the text is theirs."""


@cache
def _helm() -> subprocess.Popen[str]:
    """The other side, ``tests/deploy/helm.py``, until this interpreter ends."""
    process = subprocess.Popen(
        [tool("python"), str(ROOT / "tests/deploy/helm.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.communicate)  # the end of its input is its end
    return process


def ask(do: str, **what: Any) -> Any:
    """The answer to a question of ``tests/deploy/helm.py``.

    Raises:
        HelmError: it is an error.
    """
    helm = _helm()
    if helm.stdin is None or helm.stdout is None:
        raise AssertionError("both are pipes")
    helm.stdin.write(encode_json({"do": do, **what}) + "\n")
    helm.stdin.flush()
    answer = decode_json(helm.stdout.readline())
    if "error" in answer:
        raise HelmError(answer["error"])
    return answer["answer"]


def read_values(path: Path) -> dict[str, Any]:
    """A file of values."""
    (values,) = ask("parse", text=path.read_text()) or [{}]
    if not isinstance(values, dict):
        raise TypeError(f"{path} holds no table")
    return values


@dataclass(frozen=True, slots=True)
class Rendered:
    """What values render to: texts of templates by path, objects in them, and notes."""

    texts: Mapping[str, str]
    things: tuple[Thing, ...]
    notes: str

    def all(self, kind: str) -> list[Thing]:
        """The objects of a kind."""
        return [thing for thing in self.things if thing["kind"] == kind]

    def one(self, kind: str, name_end: str = "") -> Thing:
        """The only object of a kind, or of those whose name ends so."""
        (thing,) = (t for t in self.all(kind) if t["metadata"]["name"].endswith(name_end))
        return thing

    def environment(self) -> dict[str, str]:
        """The variables of spantap's container.

        What comes from elsewhere stands as a word: of a Secret ``Secret/name/key``, of the pod the
        path of the field.
        """
        (spec,) = (spec for kind, spec in pod_specs(self.things) if kind != "Pod")
        container = next(c for c in spec["containers"] if c["name"] == "spantap")
        maps = {thing["metadata"]["name"]: thing["data"] for thing in self.all("ConfigMap")}
        variables: dict[str, str] = {}
        for source in container["envFrom"]:
            variables |= maps.get(source.get("configMapRef", {}).get("name"), {})
        for entry in container.get("env", []):
            value = entry.get("value")
            if value is None and (secret := entry["valueFrom"].get("secretKeyRef")):
                value = f"Secret/{secret['name']}/{secret['key']}"
            elif value is None:
                value = entry["valueFrom"]["fieldRef"]["fieldPath"]
            variables[entry["name"]] = re.sub(
                r"\$\((\w+)\)", lambda name: variables[name[1]], value
            )
        return variables


def render(
    values: dict[str, Any] | None = None, *, release: str = RELEASE, namespace: str = NAMESPACE
) -> Rendered:
    """Render the chart.

    Raises:
        HelmError: the values are refused, by their schema or by a template.
    """
    answer = ask("render", values=values or {}, release=release, namespace=namespace)
    texts = {path: text.strip() for path, text in sorted(answer.items()) if text.strip()}
    notes = texts.pop("spantap/templates/NOTES.txt")
    things = [thing for text in texts.values() for thing in ask("parse", text=text)]
    return Rendered(texts, tuple(things), notes)


@cache
def rendered(values: Path) -> Rendered:
    """What a file of values renders to."""
    return render(read_values(values))


def pod_specs(things: tuple[Thing, ...] | list[Thing]) -> Iterator[tuple[str, Thing]]:
    """The kind of each object that has pods or is one, and the pod's ``spec``."""
    for thing in things:
        if thing["kind"] == "Pod":
            yield "Pod", thing["spec"]
        elif thing["kind"] in {"Deployment", "StatefulSet"}:
            yield thing["kind"], thing["spec"]["template"]["spec"]


def containers_of(spec: Thing) -> list[Thing]:
    """All containers of a pod, those that come before the others included."""
    return [*spec.get("initContainers", []), *spec["containers"]]


def example_of(values: Path) -> tuple[Path, str]:
    """Where the rendered text of a file of values is kept, and what it is now."""
    name = values.name.removesuffix("-values.yaml")
    rendered = render(read_values(values))
    parts = [f"---\n# Source: {path}\n{text}\n" for path, text in rendered.texts.items()]
    head = f"# helm template {RELEASE} . --namespace {NAMESPACE} --values ci/{values.name}\n"
    return CHART / f"examples/{name}.yaml", head + "".join(parts)


_KEY = re.compile(r"( *)([A-Za-z0-9]+):")


def documented_values() -> dict[str, str]:
    """What the lines ``# -- ...`` of values.yaml say, by the dotted path of the key below each."""
    found: dict[str, str] = {}
    path: list[str] = []
    said = None
    for line in (CHART / "values.yaml").read_text().splitlines():
        if line.strip().startswith("# -- "):
            said = line.strip().removeprefix("# -- ")
        elif key := _KEY.match(line):
            path = [*path[: len(key[1]) // 2], key[2]]
            if said is not None:
                found[".".join(path)] = said
            said = None
    return found


_LONGEST_DEFAULT = 48
"""Of characters in the table; what is longer is seen in values.yaml."""


def _table() -> str:
    """The table of values, in Markdown."""
    values = read_values(CHART / "values.yaml")
    lines = ["| Key | Default | |", "| --- | --- | --- |"]
    for path, said in documented_values().items():
        value: Any = values
        for key in path.split("."):
            value = value[key]
        default = f"`{encode_json(value)}`"
        if len(default) > _LONGEST_DEFAULT:
            default = "[values.yaml](values.yaml)"
        lines.append(f"| `{path}` | {default} | {said} |")
    return "\n".join(lines)


_BEGIN, _END = "<!-- values: python -m tests.deploy.chart -->\n", "\n<!-- end -->"


def with_table(text: str) -> str:
    """The chart's README with the table as it should be."""
    before, rest = text.split(_BEGIN)
    return before + _BEGIN + _table() + _END + rest.partition(_END)[2]


def main() -> None:
    """Write what is generated."""
    README.write_text(with_table(README.read_text()))
    for values in CI_FILES:
        path, text = example_of(values)
        path.write_text(text)


if __name__ == "__main__":
    main()
