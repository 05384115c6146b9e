"""Answers of Gemini: candidates, how many tokens they took, and why they ended.

See ``docs/contract/apis.md#gemini-answer``.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from codec.apis.gemini.content import read_content
from codec.apis.gemini.names import both, member_of
from codec.bodies import decode_response_object
from codec.charges import read_charges
from codec.error_objects import find_error
from codec.members import list_of, object_of, text_of
from codec.said import Answer, Ending, Said, Stop
from codec.text.base64_text import TakenPictures
from codec.text.integers import count_of, places_of
from codec.usage import make_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codec.charges import Charges
    from codec.said import ErrorObject
    from codec.text.jsontext import JsonObject
    from codec.usage import Usage

__all__ = ("KNOWN", "ContentAnswer", "make_answer", "read_answer", "read_usage", "shorten_data")

KNOWN: Final = both("candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId")
"""An answer has at least one of these members."""

_COUNTS: Final = (
    *("promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount"),
    *("cachedContentTokenCount", "totalTokenCount"),
)

_FILTERS: Final = frozenset(
    {
        *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR"),
        *("3", "4"),
    }
)
"""Reasons for which an answer is withheld. Numbers (``enum-encoding=int``) are listed only if they
mean the same in both of Google's APIs."""

_TIERS: Final = {
    "ON_DEMAND": "standard",
    "ON_DEMAND_FLEX": "flex",
    "ON_DEMAND_PRIORITY": "priority",
    "TRAFFIC_TYPE_UNSPECIFIED": None,
    "UNSPECIFIED": None,
}

_BAD_CALLS: Final = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"})

_STOPS: Final = {
    "STOP": Stop.STOP,
    "1": Stop.STOP,
    "MAX_TOKENS": Stop.LENGTH,
    "2": Stop.LENGTH,
    **dict.fromkeys(_FILTERS, Stop.CONTENT_FILTER),
    **dict.fromkeys(_BAD_CALLS, Stop.ERROR),
    "turnComplete": Stop.STOP,  # Live
    "toolCall": Stop.TOOL_CALL,
}


class ContentAnswer(Said, frozen=True, kw_only=True):
    """Answer of Gemini's API.

    Attributes:
        has_end: the bracket that ends an array came.
        is_cut: a stream ended without the bracket that ends its array.
    """

    has_end: bool = False
    is_cut: bool = False

    @cached_property
    def candidates(self) -> Sequence[tuple[int, JsonObject]]:
        """The candidates and their indexes (:func:`codec.text.integers.places_of`)."""
        found = [object_of(value) for value in list_of(self.body.get("candidates"))]
        return sorted(zip(places_of(found), found, strict=True), key=_first)

    def read_answers(self) -> Sequence[Answer]:
        """Read a message for each candidate.

        A candidate without parts has no message, but it may say why it ended.
        """
        return [
            Answer(
                index=index,
                message=read_content(candidate["content"], "model"),
                finish_reason=(word := _word(member_of(candidate, "finishReason"))),
                stop=_STOPS.get(word or ""),
            )
            for index, candidate in self.candidates
            if list_of(object_of(candidate.get("content")).get("parts"))
        ]

    @property
    def finish_reasons(self) -> Sequence[tuple[int, str]]:
        """The reason why each candidate ended.

        A prompt that was blocked has no candidate; its reason stands here.
        """
        words = [
            (index, word)
            for index, candidate in self.candidates
            if (word := _word(member_of(candidate, "finishReason"))) is not None
        ]
        if words or (block := self._block_reason) is None:
            return words
        return [(0, block)]

    @property
    def refused(self) -> Sequence[int]:
        """The candidates that were withheld; the first of a prompt that was blocked."""
        if not self.candidates and self._block_reason is not None:
            return [0]
        return [index for index, word in self.finish_reasons if word in _FILTERS]

    def ending(self, *, streamed: bool) -> Ending:
        """Tell how far the answer came.

        A finish reason is not the end. An array ends with its bracket, events with the last byte.
        """
        if not streamed:
            return Ending.STOPPED
        if self.is_cut or self.is_cut_off or not self.finish_reasons:
            return Ending.OPEN
        return Ending.COMPLETE if self.has_end else Ending.UNMARKED

    def read_charges(self) -> Charges:
        """Read what the answer is billed by besides its counts.

        A grounded answer is billed by the search or by the prompt, depending on the model, and a
        number of them is free. Nothing in the answer says which.
        """
        raw = self.usage.raw if self.usage is not None else {}
        grounded = any(
            object_of(member_of(candidate, "groundingMetadata")) for _, candidate in self.candidates
        )
        charges = read_charges(raw, unknown=("groundingMetadata",) if grounded else ())
        tier = _read_tier(raw)
        return replace(charges, tier=tier) if tier is not None else charges

    @property
    def _block_reason(self) -> str | None:
        feedback = object_of(member_of(self.body, "promptFeedback"))
        return _word(member_of(feedback, "blockReason"))


def read_answer(body: bytes, pictures: TakenPictures | None = None) -> ContentAnswer:
    """Read the body of an answer, or of an error; `pictures` gets those that are taken out.

    Raises:
        MalformedResponse: it is not a JSON object.
    """
    value = decode_response_object(body)
    error = find_error(value)
    if error is not None or KNOWN.isdisjoint(value):
        foreign = () if error is not None else ("foreign_chunk",)
        return make_answer(value, error=error, anomalies=foreign)
    pictures = TakenPictures() if pictures is None else pictures
    for candidate in list_of(value.get("candidates")):
        for part in list_of(object_of(object_of(candidate).get("content")).get("parts")):
            shorten_data(object_of(part), pictures)
    return make_answer(value)


def shorten_data(part: JsonObject, pictures: TakenPictures) -> None:
    """Replace a long picture or sound by its length, in place."""
    pictures.shorten(object_of(part.get("inlineData")), ("data",))


def make_answer(
    body: JsonObject,
    *,
    error: ErrorObject | None = None,
    anomalies: Sequence[str] = (),
    has_end: bool = False,
    is_cut: bool = False,
) -> ContentAnswer:
    """Make an answer of a whole body.

    Args:
        body: the answer.
        error: the error that came instead, or in the middle.
        anomalies: what was odd in the stream or the body.
        has_end: as :class:`ContentAnswer` has it.
        is_cut: as :class:`ContentAnswer` has it.
    """
    answer = ContentAnswer(
        id=text_of(member_of(body, "responseId")),
        model=text_of(member_of(body, "modelVersion")),
        usage=read_usage(member_of(body, "usageMetadata")),
        error=error,
        body=body,
        has_end=has_end,
        is_cut=is_cut,
    )
    found = tuple(dict.fromkeys((*anomalies, *_judge(answer))))
    return replace(answer, anomalies=found) if found else answer


def read_usage(raw: Any) -> Usage | None:
    """Read the counts.

    Google counts the tokens of thoughts beside those of the candidates, and the tokens that tools
    found beside those of the prompt. Both are added, and nothing else is. But if the total has no
    room for the thoughts, the candidates' count includes them. Live has another name for that
    count, which never includes them, and a total that may leave them out: then there is none.
    Gateways write the names in snake case; these are read as well.
    """
    if not isinstance(raw, dict) or all(value is None for value in raw.values()):
        return None
    prompt, found, completion, thoughts, cached, total = (
        count_of(member_of(raw, name)) for name in _COUNTS
    )
    if prompt is not None:
        prompt += found or 0
    spoken = count_of(member_of(raw, "responseTokenCount"))
    completion = completion if spoken is None else spoken
    is_full = total == (prompt or 0) + (completion or 0)
    includes = spoken is None and completion is not None and completion >= (thoughts or 0)
    if thoughts is not None and not (includes and is_full):
        completion = (completion or 0) + thoughts
    return make_usage(
        raw,
        prompt=prompt,
        completion=completion,
        total=None if spoken is not None and thoughts and is_full else total,
        cache_read=cached,
        prompt_audio=_count_audio(member_of(raw, "promptTokensDetails")),
        reasoning=thoughts,
        completion_audio=_count_audio(
            member_of(raw, f"{'candidates' if spoken is None else 'response'}TokensDetails")
        ),
    )


def _read_tier(raw: Mapping[str, Any]) -> str | None:
    """The service tier in the price list's words, from Gemini's or Vertex AI's member."""
    tier = text_of(member_of(raw, "serviceTier")) or text_of(member_of(raw, "trafficType"))
    return None if tier is None else _TIERS.get(tier.upper(), tier.lower())


def _count_audio(details: Any) -> int | None:
    """The count of sound, among the counts by kind."""
    for one in map(object_of, list_of(details)):
        if one.get("modality") == "AUDIO":
            return count_of(member_of(one, "tokenCount"))
    return None


def _judge(answer: ContentAnswer) -> Iterator[str]:
    """Judge the whole (``docs/contract/spans.md#anomalies``)."""
    words = answer.finish_reasons
    if any(word in _BAD_CALLS for _, word in words) or (words and _has_pieces(answer.candidates)):
        yield "bad_tool_arguments"
    usage = answer.usage
    if usage is not None:
        yield from usage.anomalies
    if answer.error is not None:
        return
    if not words:
        yield "no_finish_reason"
    if usage is None:
        yield "no_usage"


def _has_pieces(candidates: Sequence[tuple[int, Mapping[str, Any]]]) -> bool:
    """Tell whether the arguments of a call stayed the pieces that they came in."""
    return any(
        "partialArgs" in object_of(object_of(part).get("functionCall"))
        for _, candidate in candidates
        for part in list_of(object_of(candidate.get("content")).get("parts"))
    )


def _word(reason: Any) -> str | None:
    """A reason verbatim; a number (``enum-encoding=int``) as text."""
    if isinstance(reason, int) and not isinstance(reason, bool):
        return str(reason) if count_of(reason) else None
    return text_of(reason)


def _first(candidate: tuple[int, JsonObject]) -> int:
    return candidate[0]
