"""Helm, YAML and the schemas of Kubernetes, for tests that run where none of them is installed.

Run by the interpreter of ``.deploy`` as a program of its own: a question is a line of JSON on
standard input, ``{"do": "render", ...}``, and its answer a line on standard output,
``{"answer": ...}`` or ``{"error": "..."}``. :mod:`tests.deploy.chart` is the other side.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import helm_python  # type: ignore[import-not-found] # in .deploy alone, like the next three
import jsonschema  # type: ignore[import-untyped, unused-ignore]
import kubernetes_validate  # type: ignore[import-not-found]
import yaml  # type: ignore[import-untyped, unused-ignore]

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("main",)

CHART = Path(__file__).resolve().parents[2] / "deploy/helm/spantap"
SCHEMAS = Path(__file__).parent / "schemas"
KUBERNETES = "1.34"


read_json = json.loads  # noqa: TID251 - this interpreter has no codec


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc, unused-ignore]
    """The fast one, where the library has it; no key may stand twice, as Kubernetes wants it."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """As the library does, which would take the last of two."""
        names = [key.value for key, _ in node.value]
        if len(names) != len(set(names)):
            raise ValueError(f"a key stands twice: {sorted(names)}")
        made: dict[Any, Any] = super().construct_mapping(node, deep)
        return made


@cache
def load() -> Any:
    """The chart, read once."""
    return helm_python.Chart.load(CHART)


def parse(text: str) -> list[Any]:
    """The objects of a file in YAML."""
    return [thing for thing in yaml.load_all(text, _Loader) if thing is not None]


def render(values: dict[str, Any], release: str, namespace: str) -> dict[str, str]:
    """The text of each template, by its path; NOTES.txt among them."""
    rendered: dict[str, str] = load().render(values, name=release, namespace=namespace)
    return rendered


def lint(values: dict[str, Any]) -> list[str]:
    """What ``helm lint --strict`` has to say; empty where all is well."""
    report = helm_python.lint(CHART, values, strict=True)
    found = [m["error"] for m in report["messages"] if m["severity"] >= 2]
    return [*found, *report["errors"]]


def schema(values: dict[str, Any]) -> None:
    """Raises where the values are not what values.schema.json says."""
    load().validate_schema(values)


def package(folder: str) -> str:
    """Make the chart's archive; its path."""
    archive: str = helm_python.package(CHART, destination=folder)
    return archive


def judge(objects: list[dict[str, Any]]) -> list[str]:
    """What is wrong with objects by Kubernetes' schemas, or by ours; unknown kinds are wrong."""
    found = []
    for thing in objects:
        name = f"{thing.get('kind')} {thing.get('metadata', {}).get('name')}"
        own = SCHEMAS / f"{thing.get('kind')}.json"
        try:
            if own.exists():
                jsonschema.validate(thing, read_json(own.read_text()))
            else:
                kubernetes_validate.validate(thing, KUBERNETES, strict=True)
        except (jsonschema.ValidationError, kubernetes_validate.ValidationError) as error:
            place = ".".join(map(str, error.path))
            found.append(f"{name}: {place}: {error.message}")
        except Exception as error:  # noqa: BLE001 - a kind without a schema, and whatever else
            found.append(f"{name}: {type(error).__name__}: {error}")
    return found


_QUESTIONS: dict[str, Callable[..., Any]] = {
    "parse": parse,
    "render": render,
    "lint": lint,
    "schema": schema,
    "package": package,
    "judge": judge,
}


def main() -> None:
    """Answer until standard input ends."""
    for line in sys.stdin:
        question = read_json(line)
        try:
            answer = {"answer": _QUESTIONS[question.pop("do")](**question)}
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    main()
