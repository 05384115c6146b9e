"""The last step before a span: removes from its attributes and texts whatever must not be shown.

The switches are applied first (:mod:`telemetry.privacy.hiding`), then the limit of images, then the
patterns, so that hidden content is not searched (``docs/contract/spans.md#privacy``). Attributes
keep their order and names, and no value is made longer on purpose. The size limits come afterwards
(:mod:`telemetry.spans.size_limits`), because text that is cut is no longer JSON.

The limit of images and the patterns apply to every text, with one exception: the patterns do not
apply to texts that readers need unchanged (kind, system, provider, operation and MIME types).
Credentials that the request carried are masked in every text, whatever the switches say
(:mod:`telemetry.privacy.credentials`, R7).

No input raises an error: a value that has to be changed but cannot be read is redacted or left out.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from openinference.semconv.trace import SpanAttributes

from telemetry.attribute_values import count_chars
from telemetry.privacy.body_credentials import redact_named
from telemetry.privacy.credentials import NO_CREDENTIALS
from telemetry.privacy.hiding import hide_attributes
from telemetry.privacy.images import may_hold_long_image, redact_images, redact_long_images
from telemetry.privacy.json_strings import REDACTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from telemetry.attribute_values import AttributeValue
    from telemetry.privacy.credentials import Credentials
    from telemetry.privacy.redaction import Redaction
    from telemetry.privacy.switches import PrivacySwitches

_NOT_SEARCHED: Final = frozenset(
    {
        SpanAttributes.OPENINFERENCE_SPAN_KIND,
        SpanAttributes.LLM_SYSTEM,
        SpanAttributes.LLM_PROVIDER,
        SpanAttributes.INPUT_MIME_TYPE,
        SpanAttributes.OUTPUT_MIME_TYPE,
        "gen_ai.operation.name",
        "gen_ai.provider.name",
    }
)
"""Names whose values no pattern changes: they are all our words."""

MIME_TYPES: Final = {
    SpanAttributes.INPUT_VALUE: SpanAttributes.INPUT_MIME_TYPE,
    SpanAttributes.OUTPUT_VALUE: SpanAttributes.OUTPUT_MIME_TYPE,
}
"""The type of a value is left out if the value is no longer JSON: hidden whole, or cut."""

_URL = re.compile(r"https?:[\\/]+[^\s\"'<>]+", re.IGNORECASE)


@lru_cache(maxsize=16)
def _hide_nothing(switches: PrivacySwitches) -> bool:
    return switches.are_off


class Mask:
    """Removes hidden content from finished attributes. Immutable, does no I/O.

    Args:
        switches: what is hidden as a whole.
        redaction: patterns to search for in the rest.
        credentials: the credentials that this one call carried.
        quotes: the answer is the provider's words about an error, or the reason why there is no
            output. Then values that may be credentials are masked in it, too.
        content_members: the members of a request that are not parameters.

    Attributes:
        hides_nothing: only long images and credentials are searched for.
        credentials: as given.
    """

    def __init__(
        self,
        switches: PrivacySwitches,
        redaction: Redaction | None = None,
        credentials: Credentials = NO_CREDENTIALS,
        *,
        quotes: bool = False,
        content_members: frozenset[str] = frozenset(),
    ) -> None:
        self._switches = switches
        self._redaction = redaction
        self.credentials = credentials
        self._quotes = quotes
        self._content_members = content_members
        self._limit = switches.base64_image_max_length
        self.hides_nothing = redaction is None and not quotes and _hide_nothing(switches)

    @property
    def hides_input_messages(self) -> bool:
        """Whether nothing of a request's messages is shown."""
        return self._switches.hides_input_messages

    @property
    def hides_input_text(self) -> bool:
        """Whether no words of a request's messages are shown."""
        return self._switches.hides_input_text

    @property
    def hides_output_messages(self) -> bool:
        """Whether nothing of an answer's messages is shown, not even the tools that they call."""
        return self._switches.hides_output_messages

    @property
    def hides_output_text(self) -> bool:
        """Whether no words of an answer are shown."""
        return self._switches.hides_output_text

    @property
    def hides_input_pictures(self) -> bool:
        """Whether no picture of a request is shown."""
        return self._switches.hides_input_text or self._switches.hide_input_images

    @property
    def hides_output_pictures(self) -> bool:
        """Whether no picture of an answer is shown: it may be an edited one of the request."""
        return self._switches.hides_output_text or self._switches.hide_input_images

    @property
    def image_limit(self) -> int | None:
        """The most characters of a picture, if the user limits them; ``None`` if not."""
        return self._limit if self._switches.limits_images else None

    @property
    def searches(self) -> bool:
        """Whether texts are searched for a credential, a pattern or a long image."""
        return bool(self._redaction or self.credentials or self._switches.limits_images)

    def changes_answer(self, text: str) -> bool:
        """Tell whether a text of an answer would be changed, also by the user's limit of images."""
        if self._switches.limits_images and redact_long_images(text, self._limit) != text:
            return True
        if self._quotes and redact_named(self.credentials.redact_quote(text)) != text:
            return True
        return self.changes(text)

    def changes(self, text: str) -> bool:
        """Tell whether a credential or a pattern is found in a text."""
        return self.text(text) != text

    def finds_in_bytes(self, data: bytes) -> bool:
        """Tell whether a credential or a pattern is found in the texts of a file.

        Files have them in UTF-8 or ASCII. Bytes that are neither count as no letters: otherwise
        short patterns would be found in any large picture.
        """
        if self._redaction is None and not self.credentials:
            return False
        return self.changes(data.decode("utf-8", "replace"))

    def attributes(
        self, attributes: dict[str, AttributeValue], most_chars: int | None = None
    ) -> dict[str, AttributeValue]:
        """Return those of a span's attributes that may be shown, in their order.

        Args:
            attributes: are returned themselves if there is nothing to search for.
            most_chars: the result of :func:`count_chars` for them, if it is known.
        """
        if (
            self.hides_nothing
            and not self.credentials
            and not self._may_hold_long_image(attributes, most_chars)
        ):
            return attributes
        return self._search_all(attributes)

    def _may_hold_long_image(
        self, attributes: dict[str, AttributeValue], most_chars: int | None
    ) -> bool:
        """Tell whether any text is long enough for an image over the limit."""
        values = attributes.values()
        if (count_chars(values) if most_chars is None else most_chars) <= self._limit:
            return False
        return any(count_chars([value]) > self._limit for value in values)

    def may_change(self, written: bytes, over: Callable[[int], Iterable[object]]) -> bool:
        """Tell whether any text may have an image over the limit, or a credential.

        Args:
            written: all attributes, every text as UTF-8: more bytes than characters.
            over: returns the values that take more than a number of bytes.
        """
        if self.credentials.may_be_in(written):
            return True
        return len(written) > self._limit and any(
            type(value) is not str or may_hold_long_image(value, self._limit)
            for value in over(self._limit)
        )

    def _search_all(self, attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
        left = hide_attributes(attributes, self._switches, self._content_members)
        shown = {key: self._search(key, value) for key, value in left.items()}
        for value_key, mime_key in MIME_TYPES.items():
            if shown.get(value_key) == REDACTED:
                shown.pop(mime_key, None)
        return shown

    def provider_words(self, text: str) -> str:
        """Return a provider's words about an error as they may be shown.

        They may quote request and answer, so they are redacted if either is hidden
        (``docs/contract/spans.md#privacy``). If only images are hidden, all URLs are redacted,
        because nothing distinguishes the URL of an image.
        """
        if text and self._switches.hides_provider_words:
            return REDACTED
        if self._switches.hide_input_images:
            text = _URL.sub(REDACTED, redact_images(text))
        text = redact_long_images(text, self._limit)
        return self.text(redact_named(self.credentials.redact_quote(text)))

    def text(self, text: str) -> str:
        """Mask credentials, and all finds of the patterns, in any other text."""
        text = self.credentials.redact(text)
        return text if self._redaction is None else self._redaction.redact_json(text)

    def whole_text(self, text: str) -> str:
        """Mask a text that is cut afterwards, and remove long images from it."""
        return self.text(redact_long_images(text, self._limit))

    def _search(self, key: str, value: AttributeValue) -> AttributeValue:
        if isinstance(value, str):
            return self._search_text(key, value)
        if not isinstance(value, tuple):
            return value
        texts = tuple(self._search_text(key, item) for item in value if isinstance(item, str))
        return texts or value  # a vector has none

    def _search_text(self, key: str, text: str) -> str:
        shown = redact_long_images(text, self._limit)
        if self._quotes and key == SpanAttributes.OUTPUT_VALUE:
            shown = redact_named(self.credentials.redact_quote(shown))
        return shown if key in _NOT_SEARCHED else self.text(shown)
