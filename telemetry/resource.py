"""The resource of every span: which service speaks (``docs/contract/spans.md#span-resource``)."""

from __future__ import annotations

from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.semconv.attributes.service_attributes import SERVICE_NAME, SERVICE_VERSION

from codec._version import __version__
from telemetry.semconv import SCOPE_NAME


def build_resource() -> Resource:
    """The resource that the standard environment describes.

    ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` (where also the Phoenix project is set,
    ``openinference.project.name``) win over our own name and version.
    """
    defaults = {SERVICE_NAME: SCOPE_NAME, SERVICE_VERSION: __version__}
    # create() lets the mapping it is given win over the environment, hence the detour.
    return Resource.create({**defaults, **OTELResourceDetector().detect().attributes})
