"""OpenInference's privacy switches, from the environment (``docs/contract/spans.md#privacy``).

A switch is ``true`` or ``false`` in any case; an empty one counts as not set (OpenTelemetry
specification, "Environment variable definitions"). Anything else is refused: the reference warns
and records everything, although the user asked for less. For the same reason an unknown
``OPENINFERENCE_HIDE_*`` is refused.

``OPENINFERENCE_BLOB_UPLOADER`` and ``OPENINFERENCE_ENABLE_GENAI_SEMCONV`` are not read: nothing is
uploaded, and the GenAI names are always written.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from codec.apis.api import Content
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = "OPENINFERENCE_HIDE_"
_IMAGE_LIMIT = "OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH"

_OLD_NAMES = {"OPENINFERENCE_HIDE_EMBEDDING_VECTORS": "hide_embeddings_vectors"}
"""Deprecated, but still followed."""

_MAX_LIMIT_DIGITS = 18
"""A longer number cannot be a length, and Python would refuse to read thousands of digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacySwitches:
    """The content that is to be hidden; fields are named as in the reference's ``TraceConfig``.

    A switch may hide more than its field says; only the properties decide that.

    Attributes:
        hide_inputs: the request: messages, prompts, tools, parameters and images.
        hide_outputs: the answer.
        hide_input_messages: the messages of the request, their roles and ids too.
        hide_output_messages: the messages of the answer.
        hide_input_text: the text of the request's messages.
        hide_output_text: the text of the answer's messages.
        hide_llm_invocation_parameters: if not set, as `hide_inputs`. If inputs are hidden and the
            parameters are not, they lose their words.
        hide_llm_tools: the tools on offer; if not set, as `hide_inputs`.
        hide_prompts: prompts of legacy completions.
        hide_choices: answers of legacy completions.
        hide_embeddings_vectors: vectors of embeddings, which are not even built unless they are
            asked for (``docs/contract/spans.md#embeddings``).
        hide_retrieval_documents: all text of a ranking, the query and what the answer repeats
            included; no other span of ours has retrieved documents.
        base64_image_max_length: a ``data:image/…;base64`` URL of more characters is hidden.
        limits_images: the user set that limit, which then also bounds what is kept beside spans.
    """

    hide_inputs: bool = False
    hide_outputs: bool = False
    hide_input_messages: bool = False
    hide_output_messages: bool = False
    hide_input_text: bool = False
    hide_output_text: bool = False
    hide_input_images: bool = False
    hide_llm_invocation_parameters: bool | None = None
    hide_llm_tools: bool | None = None
    hide_prompts: bool = False
    hide_choices: bool = False
    hide_embeddings_vectors: bool = False
    hide_embeddings_text: bool = False
    hide_retrieval_documents: bool = False
    base64_image_max_length: int = 32_000
    limits_images: bool = False

    @classmethod
    def everything(cls) -> PrivacySwitches:
        """Return switches that are all on: no content is shown at all."""
        return cls(**dict.fromkeys(_HIDE_FIELDS, True))

    def for_content(self, content: Content) -> PrivacySwitches:
        """Return the switches as they apply to calls with that content.

        For legacy completions prompts and choices count as the text, for embeddings the embedded
        texts, and for rankings the documents.
        """
        match content:
            case Content.MESSAGES | Content.BODIES:
                return self
            case Content.TEXTS:
                prompts, choices = self.hides_prompts, self.hides_choices
                return replace(self, hide_input_text=prompts, hide_output_text=choices)
            case Content.VECTORS:
                return replace(self, hide_input_text=self.hides_embedded_text)
            case Content.RANKING:
                hides = self.hide_retrieval_documents
                inputs, outputs = self.hides_input_text or hides, self.hides_output_text or hides
                return replace(self, hide_input_text=inputs, hide_output_text=outputs)

    @property
    def are_off(self) -> bool:
        """Whether none hides anything; the limit of images does not count."""
        limit = self.base64_image_max_length
        return self == PrivacySwitches(
            base64_image_max_length=limit, limits_images=self.limits_images
        )

    @property
    def hides_input_messages(self) -> bool:
        """Whether not even roles and ids of a request's messages are shown."""
        return self.hide_inputs or self.hide_input_messages

    @property
    def hides_output_messages(self) -> bool:
        """Whether not even roles and ids of an answer's messages are shown."""
        return self.hide_outputs or self.hide_output_messages

    @property
    def hides_input_text(self) -> bool:
        """Whether no words of a request are shown: no raw request, and no words in parameters."""
        return self.hides_input_messages or self.hide_input_text

    @property
    def hides_output_text(self) -> bool:
        """Whether no words of an answer are shown, and so no raw answer."""
        return self.hides_output_messages or self.hide_output_text

    @property
    def hides_tools(self) -> bool:
        """Whether the tools on offer are not shown."""
        return self.hide_inputs if self.hide_llm_tools is None else self.hide_llm_tools

    @property
    def hides_parameters(self) -> bool:
        """Whether the parameters of a request are not shown."""
        said = self.hide_llm_invocation_parameters
        return self.hide_inputs if said is None else said

    @property
    def hides_prompts(self) -> bool:
        """Whether prompts of legacy completions are not shown."""
        return self.hides_input_text or self.hide_prompts

    @property
    def hides_choices(self) -> bool:
        """Whether answers of legacy completions are not shown."""
        return self.hides_output_text or self.hide_choices

    @property
    def hides_embedded_text(self) -> bool:
        """Whether texts that are embedded are not shown."""
        return self.hides_input_text or self.hide_embeddings_text

    @property
    def hides_vectors(self) -> bool:
        """Whether vectors of embeddings are not shown."""
        return self.hides_output_text or self.hide_embeddings_vectors

    @property
    def hides_of_request(self) -> bool:
        """Whether some content of a request is hidden, also in answers that repeat it."""
        return (
            self.hides_prompts
            or self.hides_tools
            or self.hides_parameters
            or self.hide_input_images
        )

    @property
    def hides_provider_words(self) -> bool:
        """Whether a provider's words about an error are hidden: they may quote hidden content."""
        return (
            self.hides_prompts
            or self.hides_choices
            or self.hides_embedded_text
            or self.hides_tools
            or self.hides_parameters
        )


_HIDE_FIELDS = tuple(
    field.name for field in fields(PrivacySwitches) if field.name.startswith("hide_")
)

_SWITCHES = {f"OPENINFERENCE_{name.upper()}": name for name in _HIDE_FIELDS} | _OLD_NAMES
"""Maps each environment variable to the field that it sets."""


def read_privacy_switches(environ: Mapping[str, str]) -> PrivacySwitches:
    """Read the switches of an environment, and its limit of images.

    Raises:
        ConfigurationError: a value is not valid, or a switch is not known; the message names the
            variable.
    """
    hides: dict[str, bool] = {}
    for variable in sorted(environ):
        if not variable.startswith(_PREFIX):
            continue
        if variable not in _SWITCHES:
            known = ", ".join(_SWITCHES)
            raise ConfigurationError(f"{variable} is not a switch that is known: there are {known}")
        if value := environ[variable]:
            name = _SWITCHES[variable]
            # If the old and the new name of a switch disagree, the stricter wins.
            hides[name] = _is_on(variable, value) or hides.get(name, False)
    limit = environ.get(_IMAGE_LIMIT, "")
    if not limit:
        return PrivacySwitches(**hides)
    return PrivacySwitches(**hides, base64_image_max_length=_read_limit(limit), limits_images=True)


def _is_on(variable: str, value: str) -> bool:
    word = value.lower()
    if word not in {"true", "false"}:
        raise ConfigurationError(f"{variable} is {value!r}, but must be true or false")
    return word == "true"


def _read_limit(value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) <= _MAX_LIMIT_DIGITS):
        raise ConfigurationError(
            f"{_IMAGE_LIMIT} is {value!r}, but must be a whole number of characters, from 0"
        )
    return int(value)
