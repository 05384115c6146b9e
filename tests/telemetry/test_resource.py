"""The resource that spans carry."""

from __future__ import annotations

import pytest

from codec._version import __version__
from telemetry.resource import build_resource


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES", raising=False)


def test_defaults() -> None:
    """Without environment the service is spantap, and no project is named."""
    attributes = build_resource().attributes
    assert attributes["service.name"] == "spantap"
    assert attributes["service.version"] == __version__
    assert attributes["telemetry.sdk.name"] == "opentelemetry"
    assert "openinference.project.name" not in attributes


def test_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard variables win over our name and version, and may name the Phoenix project."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "gateway")
    monkeypatch.setenv(
        "OTEL_RESOURCE_ATTRIBUTES", "service.version=7,openinference.project.name=my%20project"
    )
    attributes = build_resource().attributes
    assert attributes["service.name"] == "gateway"
    assert attributes["service.version"] == "7"
    assert attributes["openinference.project.name"] == "my project"
