"""values.schema.json knows every key, and what may stand there.

See ``docs/contract/promises.md#chart``.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json
from telemetry.export.otel_environment import _SAMPLERS
from telemetry.privacy.switches import PrivacySwitches
from tests.deploy.chart import CHART, HelmError, ask, read_values
from tests.deploy.tools import run, tool

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA: dict[str, Any] = decode_json((CHART / "values.schema.json").read_bytes())

HANDED_ON = {"kubernetesObject", "kubernetesObjectOrNull", "kubernetesList", "stringMap"}
"""Definitions of what others judge, and of names that are anybody's."""


@cache
def defaults() -> dict[str, Any]:
    return read_values(CHART / "values.yaml")


def walk(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema below `schema` that stands for a value of ours, with its path."""
    yield path, schema
    for key, below in schema.get("properties", {}).items():
        yield from walk(below, f"{path}.{key}".strip("."))
    if isinstance(schema.get("items"), dict):
        yield from walk(schema["items"], f"{path}[]")
    for below in schema.get("anyOf", []):
        yield from walk(below, path)


def refuses(values: dict[str, Any]) -> bool:
    try:
        ask("schema", values=values)
    except HelmError:
        return True
    return False


def at(path: str, value: Any) -> dict[str, Any]:
    """Values with one key set, by its dotted path."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)


def test_it_is_a_schema() -> None:
    """It follows the schema of schemas."""
    found = run([tool("check-jsonschema"), "--check-metaschema", CHART / "values.schema.json"])
    assert found.returncode == 0, found.stdout


def test_it_is_closed_at_every_level_of_ours() -> None:
    """Every object says which keys it has; what is Kubernetes' own is typed as object or list."""
    for path, schema in walk(SCHEMA):
        if "$ref" in schema:
            name = schema["$ref"].removeprefix("#/definitions/")
            definition = SCHEMA["definitions"][name]
            opaque = "object" in definition.get("type", ()) or definition.get("type") == "array"
            assert not opaque or name in HANDED_ON, path
        elif schema.get("type") == "object":
            assert schema["additionalProperties"] is False, path
        else:
            assert {"type", "enum", "anyOf"} & set(schema), path
            assert schema.get("type") != "array" or schema["items"], path


def test_every_value_is_in_the_schema_and_the_other_way_round() -> None:
    """Both have the same keys; `openinference` and `global` alone have keys without a default."""

    def keys(values: dict[str, Any], schema: dict[str, Any], path: str) -> None:
        assert set(values) == set(schema["properties"]) - {"global"}, path
        for key, value in values.items():
            below = schema["properties"][key]
            if "properties" in below and key != "openinference":
                keys(value, below, f"{path}.{key}")

    keys(defaults(), SCHEMA, "")


def test_an_unknown_key_is_refused_everywhere() -> None:
    """A slip of the pen in any table of ours ends the render."""
    tables = [path for path, schema in walk(SCHEMA) if "properties" in schema and "[]" not in path]
    assert len(tables) > 25
    for path in tables:
        assert refuses(at(f"{path}.slip".strip("."), True)), path
    assert not refuses({})


def samples(path: str, schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Values that a schema must refuse, by what it says."""
    wrong = {
        "string": 1,
        "integer": "1",
        "number": "1",
        "boolean": "true",
        "array": {},
        "object": [],
    }
    if "enum" in schema:
        yield path, "no such word"
    if isinstance(schema.get("type"), str):
        yield path, wrong[schema["type"]]
    if "minimum" in schema:
        yield path, schema["minimum"] - 1
    if "exclusiveMinimum" in schema:
        yield path, schema["exclusiveMinimum"]
    if "maximum" in schema:
        yield path, schema["maximum"] + 1
    if "pattern" in schema:
        yield path, next(t for t in ("no such thing, ", "") if not re.search(schema["pattern"], t))


def test_wrong_types_words_and_numbers_are_refused() -> None:
    """For every key: another type, a word that is not known, a number out of its range."""
    tried = 0
    several = {path for path, schema in walk(SCHEMA) if "anyOf" in schema}
    for path, schema in walk(SCHEMA):
        if "[]" in path or path in {"", "global", *several}:
            continue
        name = schema.get("$ref", "").removeprefix("#/definitions/")
        for place, value in samples(path, SCHEMA["definitions"].get(name, schema)):
            assert refuses(at(place, value)), (place, value)
            tried += 1
    assert tried > 200


REFUSED = [
    ("image.digest", "sha256:1234", "a digest has 64 digits"),
    ("image.tag", "a tag", "a tag has no space"),
    ("upstream.baseUrl", "https://user:password@api.example.com", "no credential in a URL"),
    ("upstream.baseUrl", "https://api.example.com?key=x", "nor in its query"),
    ("upstream.baseUrl", "http://vllm:99999", "no such port"),
    ("upstream.baseUrl", "http://vllm:0/v1", "nor a port 0"),
    ("upstream.baseUrl", "http://:80", "a URL has a host"),
    ("upstreams", [{"name": "a", "url": "http://a:65536", "prefix": "/a"}], "nor for a prefix"),
    ("otel.endpoint", "http://collector:70000", "nor for the backend"),
    ("otel.endpoint", "collector:70000", "nor for gRPC"),
    ("config.host", "1.2", "an address has four parts"),
    ("config.host", "256.0.0.1", "each below 256"),
    ("config.maxBodyBytes", 1e22, "nobody has so much memory"),
    ("fullnameOverride", "1a", "a Service begins with a letter"),
    ("inboundKeys.digests", ["my-secret-key-in-plain"], "no key in plain"),
    ("otel.endpoint", "https://user:password@otlp.example.com", "no credential in a URL"),
    ("store.maxSpoolBytes", 16777215, "a spool has room, or is none"),
    ("store.maxSpoolBytes", -1, "a spool has room, or is none"),
    ("store.maxSpoolBytes", "0", "a size is a number"),
    ("store.size", "2G", "sizes are powers of two"),
    ("store.persistence.accessModes", ["ReadWriteMany"], "a store has one owner"),
    ("upstreams", [{"name": "a", "url": "http://a"}], "an upstream has a prefix"),
    ("upstreams", [{"name": "a", "url": "http://a", "prefix": "/", "key": "x"}], "no other keys"),
    ("config.prices", [{"model": "m", "inputs": 1}], "no other rates"),
    ("config.keep", ["failures"], "three reasons"),
    ("ingress.hosts", [{"host": "https://a.example.com"}], "a host is no URL"),
    ("ingress.hosts", [{"host": "a.example.com", "path": "/"}], "paths, not path"),
    ("podDisruptionBudget.minAvailable", "half", "a number or per cent"),
    ("podDisruptionBudget.maxUnavailable", -1, "a number or per cent"),
    ("imagePullSecrets", ["registry"], "each has a name"),
    ("extraEnv", {"NAME": "value"}, "a list, as Kubernetes has it"),
]


@pytest.mark.parametrize(("path", "value", "reason"), REFUSED, ids=[r for _, _, r in REFUSED])
def test_values_are_typed(path: str, value: object, reason: str) -> None:
    """What the program or Kubernetes would refuse later is refused at once."""
    assert refuses(at(path, value)), reason


def test_no_table_is_taken_away() -> None:
    """A template that looks into it would only say that there is nothing."""
    tables = [path for path, schema in walk(SCHEMA) if "properties" in schema and "[]" not in path]
    for path in set(tables) - {"", "openinference"}:
        assert refuses(at(path, None)), path


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("upstream.baseUrl", "http://[2001:db8::1]:65535/v1"),
        ("upstream.baseUrl", "https://api.example.com:443"),
        ("otel.endpoint", "https://otlp.example.com/a?b=c"),
        ("otel.endpoint", "collector:4317"),
        ("config.host", "::"),
        ("config.host", "10.0.0.255"),
    ],
)
def test_addresses_are_not_refused(path: str, value: str) -> None:
    """Names, numbers of both kinds, ports and paths."""
    assert not refuses(at(path, value))


def test_what_kubernetes_has_is_handed_on() -> None:
    """Its objects are typed as no more than objects, and probes may be left out."""
    assert not refuses(at("affinity", {"nodeAffinity": {"whatever": 1}}))
    assert not refuses(at("livenessProbe", None))
    assert not refuses(at("extraManifests", ["text", {"kind": "ConfigMap"}]))
    assert not refuses({"global": {"a parent chart's": True}})


def test_words_are_the_programs() -> None:
    """Samplers and privacy switches are those that the program knows."""
    otel = SCHEMA["properties"]["otel"]["properties"]
    assert set(otel["sampler"]["enum"]) == {"", *_SAMPLERS}
    switches = SCHEMA["properties"]["openinference"]["properties"]

    def camel(name: str) -> str:
        first, *rest = name.split("_")
        return first + "".join(map(str.capitalize, rest))

    names = PrivacySwitches.__dataclass_fields__.keys() - {"limits_images"}  # follows from another
    assert set(switches) == {camel(name) for name in names}
