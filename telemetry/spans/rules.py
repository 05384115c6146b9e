"""The rules for every span, from settings and environment, in one value."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from codec.apis.table import APIS, get_api
from telemetry.conversation_position import ConversationForm
from telemetry.conversations.memory import MAX_CALLS
from telemetry.conversations.run import RUN_IDLE_SECONDS
from telemetry.observing.client_context import HeaderMap
from telemetry.observing.heads import AllowedFields
from telemetry.privacy.body_credentials import find_body_credentials
from telemetry.privacy.credentials import NO_CREDENTIALS
from telemetry.privacy.mask import Mask
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.keep_rules import KeepRules
from telemetry.spans.size_limits import SizeLimits
from telemetry.spans.value_texts import ValueForm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codec.apis.api import Api
    from telemetry.observing.exchange import Exchange
    from telemetry.pricing.pricing import Pricing
    from telemetry.privacy.credentials import Credentials
    from telemetry.privacy.redaction import Redaction

MAX_KEPT_MASKS = 64
"""The number of heads whose masks are kept: as many as the observer remembers."""


class SpanNaming(StrEnum):
    """The convention by which spans are named (``docs/contract/spans.md#span-name``)."""

    OPENINFERENCE = "openinference"
    """``ChatCompletion``, as in the in-process instrumentation."""
    GENAI = "genai"
    """``chat {model}``, as in OpenTelemetry's GenAI conventions."""


class RawPolicy(StrEnum):
    """The calls whose answers are kept beside their spans, as the upstream sent them."""

    OFF = "off"
    ERRORS = "errors"
    """Calls whose span has the status ERROR."""
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRules:
    """The rules.

    Attributes:
        naming: how spans are named.
        headers: which request headers say something about a call.
        allowed_fields: which fields of both heads are recorded.
        keep: which unsampled calls get a span.
        sizes: how large attributes may be.
        privacy: what is hidden.
        redaction: patterns whose finds are hidden in all the rest, ``None`` for none.
        pricing: finds the cost of a call, ``None`` for no costs.
        shows_genai_content: messages are also written under the names of the GenAI conventions.
        shows_vectors: whether the vectors of embeddings are recorded.
        values: what ``input.value`` and ``output.value`` are.
        conversations: how conversations are shown.
        remembered_calls: how many calls are remembered, to find later calls that continue them.
        run_idle_seconds: how long a run may be without a call before it is over.
        pictures: whether pictures are kept beside the spans of their calls.
        raw: of which calls the true bytes of the answer are kept beside the span.
        websocket_audio: whether the sound of Realtime and Live is kept in spans.
    """

    naming: SpanNaming = SpanNaming.OPENINFERENCE
    headers: HeaderMap = field(default_factory=HeaderMap.build)
    allowed_fields: AllowedFields = field(default_factory=AllowedFields)
    keep: KeepRules = field(default_factory=KeepRules)
    sizes: SizeLimits = field(default_factory=SizeLimits)
    privacy: PrivacySwitches = field(default_factory=PrivacySwitches)
    redaction: Redaction | None = None
    pricing: Pricing | None = None
    shows_genai_content: bool = False
    shows_vectors: bool = False
    values: ValueForm = ValueForm.JSON
    conversations: ConversationForm = ConversationForm.RUNS
    remembered_calls: int = MAX_CALLS
    run_idle_seconds: int = RUN_IDLE_SECONDS
    pictures: bool = True
    raw: RawPolicy = RawPolicy.OFF
    websocket_audio: bool = False
    _usual_masks: Mapping[str, Mask] = field(init=False, repr=False, compare=False)
    _masks_of_heads: Callable[[str, Credentials], Mask] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Make the masks of most calls once, by the name of their API."""
        apis = (*APIS, get_api(""))  # the last one stands for unknown ones
        masks = {api.name: self._make_mask(api, self.privacy) for api in apis}
        object.__setattr__(self, "_usual_masks", masks)
        # The observer gives calls with equal heads the same credentials object, so a look-up
        # compares no values.
        kept = lru_cache(maxsize=MAX_KEPT_MASKS)(self._make_mask_of_head)
        object.__setattr__(self, "_masks_of_heads", kept)

    @property
    def run_idle_ns(self) -> int | None:
        """How long a run may be without a call before it is over; ``None`` without runs."""
        if self.conversations is not ConversationForm.RUNS:
            return None
        return self.run_idle_seconds * 1_000_000_000

    @property
    def hides_bodies(self) -> bool:
        """Whether requests are not shown whole, so that nothing is taken from their bodies."""
        return self.privacy.hides_input_text or self.privacy.hides_parameters

    @property
    def keeps_made_pictures(self) -> bool:
        """Whether pictures of answers are kept; their length is checked later."""
        hides = self.privacy.hides_output_text or self.privacy.hide_input_images
        return self.pictures and not hides

    @property
    def keeps_raw_answers(self) -> bool:
        """Whether true bytes of answers are kept; at the end they are searched for secrets."""
        return self.raw is not RawPolicy.OFF and self.privacy.are_off

    @property
    def hides_content(self) -> bool:
        """Whether any content is hidden from all spans; the limit of images does not count."""
        return self.redaction is not None or not self.privacy.are_off

    def mask(self, exchange: Exchange) -> Mask:
        """Return the mask of an exchange: it hides all content if its client asked for that."""
        privacy = _ALL_HIDDEN if exchange.hides_content else self.privacy
        if privacy.hides_prompts and exchange.request is not None and exchange.request.is_repeated:
            privacy = replace(privacy, hide_outputs=True)
        body = exchange.request.body if exchange.request is not None else None
        in_body = find_body_credentials(body, exchange.request_body)
        credentials = exchange.credentials.joined(in_body)
        api = exchange.api
        if privacy is self.privacy and not credentials:
            return self._usual_masks[api.name]
        said = exchange.response
        quotes = exchange.error_is_providers or (said is not None and not said.has_output)
        if privacy is self.privacy and not quotes and not in_body:
            return self._masks_of_heads(api.name, credentials)
        return self._make_mask(api, privacy, credentials, quotes=quotes)

    def mask_open(self, api: Api, credentials: Credentials) -> Mask:
        """Return the mask for the request of a call that is under way."""
        return self._make_mask(api, self.privacy, credentials)

    def _make_mask_of_head(self, api: str, credentials: Credentials) -> Mask:
        return self._make_mask(get_api(api), self.privacy, credentials)

    def _make_mask(
        self,
        api: Api,
        privacy: PrivacySwitches,
        credentials: Credentials = NO_CREDENTIALS,
        *,
        quotes: bool = False,
    ) -> Mask:
        return Mask(
            privacy.for_content(api.content),
            self.redaction,
            credentials,
            quotes=quotes,
            content_members=api.asked.content_members,
        )


_ALL_HIDDEN = PrivacySwitches.everything()
