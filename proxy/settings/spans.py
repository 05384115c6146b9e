"""Makes the rules for every span, from settings and environment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from telemetry.conversation_position import ConversationForm
from telemetry.errors import ConfigurationError
from telemetry.observing.client_context import HeaderMap
from telemetry.observing.heads import AllowedFields
from telemetry.pricing.price_table import Price, PriceTable
from telemetry.pricing.pricing import Pricing
from telemetry.privacy.redaction import Redaction
from telemetry.privacy.switches import PrivacySwitches, read_privacy_switches
from telemetry.spans.genai_messages import reads_genai_content
from telemetry.spans.keep_rules import KeepReason, KeepRules
from telemetry.spans.rules import RawPolicy, SpanNaming, SpanRules
from telemetry.spans.size_limits import SizeLimits
from telemetry.spans.value_texts import ValueForm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.settings.settings import Settings

_VECTORS = "OPENINFERENCE_HIDE_EMBEDDINGS_VECTORS"
"""The one switch that is on unless set to ``false``: vectors are large, and nobody reads them."""


class SpanSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of spans, without what reads and checks them."""

    headers: dict[str, str]
    record_headers: tuple[str, ...]
    keep: frozenset[KeepReason]
    keep_slow_seconds: float
    span_name: SpanNaming
    values: ValueForm
    conversations_as: ConversationForm
    run_idle_seconds: int
    conversations: int
    content: bool
    redact: frozenset[str]
    redact_patterns: dict[str, str]
    cost: bool
    prices: tuple[dict[str, str | float | None], ...]
    max_value_bytes: int
    max_span_bytes: int
    pictures: bool
    raw: RawPolicy
    websocket_audio: bool

    @classmethod
    def of(cls, settings: Settings) -> SpanSettings:
        """Pick them from all settings."""
        return msgspec.convert(settings.model_dump(mode="json"), cls)


def build_span_rules(settings: SpanSettings, environ: Mapping[str, str]) -> SpanRules:
    """Build the rules for spans from our settings and the standard variables.

    Raises:
        ConfigurationError: one of them cannot be followed, in a sentence that names it.
    """
    switches = read_privacy_switches(environ)
    if not settings.content:
        limit, is_set = switches.base64_image_max_length, switches.limits_images
        switches = replace(
            PrivacySwitches.everything(), base64_image_max_length=limit, limits_images=is_set
        )
    # The old name of the switch may say otherwise.
    says_to_show = environ.get(_VECTORS, "").lower() == "false"
    shows_vectors = says_to_show and not switches.hides_vectors
    has_patterns = bool(settings.redact_patterns or settings.redact)
    return SpanRules(
        naming=settings.span_name,
        headers=HeaderMap.build(settings.headers),
        allowed_fields=AllowedFields.build(settings.record_headers),
        keep=KeepRules(reasons=settings.keep, slow_seconds=settings.keep_slow_seconds),
        sizes=SizeLimits(value_bytes=settings.max_value_bytes, span_bytes=settings.max_span_bytes),
        privacy=switches,
        redaction=_build_redaction(settings) if has_patterns else None,
        pricing=Pricing(build_price_table(settings)) if settings.cost else None,
        shows_genai_content=reads_genai_content(environ),
        shows_vectors=shows_vectors,
        values=settings.values,
        conversations=settings.conversations_as,
        remembered_calls=settings.conversations,
        run_idle_seconds=settings.run_idle_seconds,
        pictures=settings.pictures,
        raw=settings.raw,
        websocket_audio=settings.websocket_audio,
    )


def hides_content(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Tell whether any content is hidden from spans; such content must not wait on a disk.

    Raises:
        ConfigurationError: a variable cannot be followed.
    """
    if settings.redact or settings.redact_patterns or not settings.content:
        return True
    return not read_privacy_switches(environ).are_off


def hand_over(settings: Settings, environ: Mapping[str, str]) -> bytes:
    """All settings as JSON, for the processes of a proxy; without a spool if content is hidden.

    They have digests of clients' keys, and the names of the variables that hold upstreams' keys.
    The member ``lacks_spool`` says that there is no spool only because content is hidden, and
    ``shown`` is the list of settings for the page.

    Raises:
        ConfigurationError: a variable about what is to be hidden cannot be followed.
    """
    from proxy.settings.shown import list_settings  # noqa: PLC0415 - telemetry needs no pydantic

    handed = settings.model_dump(mode="json")
    handed["shown"] = msgspec.to_builtins(list_settings(settings, environ))
    if hides_content(settings, environ):
        handed |= {"max_spool_bytes": 0, "lacks_spool": settings.max_spool_bytes > 0}
    return msgspec.json.encode(handed)


def _build_redaction(settings: SpanSettings) -> Redaction:
    try:
        return Redaction(settings.redact_patterns, ready_made=settings.redact)
    except ConfigurationError as error:
        raise ConfigurationError(f"setting 'redact' or 'redact_patterns': {error}") from error


def build_price_table(settings: SpanSettings) -> PriceTable:
    """Build the user's own prices.

    Raises:
        ConfigurationError: one of them is not a price.
    """
    try:
        return PriceTable([msgspec.convert(price, Price) for price in settings.prices])
    except ConfigurationError as error:
        raise ConfigurationError(f"setting 'price': {error}") from error
