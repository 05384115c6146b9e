"""An answer as one value, from a stream or a plain body alike, and back to a body's bytes.

:class:`codec.chat.answer.ChatResponse` is what the observer's fold gives. Library users get this
full value of it: call arguments are parsed, finish reasons normalised, and nothing is lost.

Rules:

1. A stream and the plain body of the same answer give equal values
   (``docs/contract/sources.md#s4-19``), except for what a stream cannot express or keeps in another
   form: an empty list of calls, empty arguments, adjoining text parts (which become one), and some
   members of values that are not calls.
2. What says nothing is left out (:mod:`codec.values.choices`), and so are values among the choices
   that are not choices. A list of calls without any call is empty, not ``None``.
3. Members that are not modelled, or have the wrong type, are in ``extra``.
4. Encoding is a merge into the original, as for requests: everything that was not changed keeps its
   bytes, and values that were left out keep their place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codec.chat.completion import fold_completion
from codec.chat.response import decode_response
from codec.members import list_of, object_of
from codec.text.integers import index_of
from codec.text.jsontext import decode_json
from codec.values._changes import merge_changes
from codec.values._members import Members, insert_at, others, put, without_nulls
from codec.values.choices import AnsweredCall, AnsweredChoice, decode_choice
from codec.values.splice import splice_json

if TYPE_CHECKING:
    from codec.chat.answer import ChatResponse
    from codec.cost import Cost
    from codec.text.jsontext import JsonObject
    from codec.usage import Usage

__all__ = (
    "ResponseValues",
    "decode_response_values",
    "encode_response_values",
    "read_response_values",
)

_API_SPECIFIC = ("system_fingerprint", "service_tier")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseValues:
    """The values of an answer.

    Attributes:
        choices: sorted by index; a choice without one takes its place in the list.
        api_specific: ``system_fingerprint``, ``service_tier`` and the first choice's ``logprobs``,
            as far as they came (``docs/contract/sources.md#s4-16``).
        extra: all other members, such as ``object`` and ``created``.
    """

    id: str | None = None
    model: str | None = None
    choices: tuple[AnsweredChoice, ...] = ()
    usage: Usage | None = None
    cost: Cost | None = None
    api_specific: Members = field(default_factory=dict)
    extra: Members = field(default_factory=dict)

    @property
    def first(self) -> AnsweredChoice:
        """The first choice; an empty one if there is none."""
        return self.choices[0] if self.choices else AnsweredChoice()

    @property
    def message(self) -> str | None:
        """The first choice's text."""
        return self.first.text

    @property
    def tool_calls(self) -> tuple[AnsweredCall, ...] | None:
        """The first choice's calls."""
        return self.first.tool_calls

    @property
    def finish(self) -> str | None:
        """The first choice's finish reason, normalised."""
        return self.first.finish

    def to_json(self) -> JsonObject:
        """Return the answer as a ``chat.completion``."""
        tiers = {key: value for key, value in self.api_specific.items() if key != "logprobs"}
        members = put(
            {},
            id=self.id,
            model=self.model,
            choices=[choice.to_json() for choice in self.choices] or None,
            usage=None if self.usage is None else dict(self.usage.raw),
            **tiers,
        )
        return members | dict(self.extra)


def decode_response_values(body: bytes) -> ResponseValues:
    """Decode a plain body.

    Raises:
        MalformedResponse: it is not a JSON object.
    """
    response = decode_response(body)
    return _read(response, object_of(response.body))


def read_response_values(response: ChatResponse) -> ResponseValues:
    """Read the values of an answer that was decoded or folded (rule 1)."""
    body = fold_completion(response)
    if not response.body.get("object"):
        del body["object"]  # the answer did not have it
    return _read(response, body)


def encode_response_values(values: ResponseValues, original: bytes) -> bytes:
    """Encode an answer as a merge into the body it was decoded from (rule 4).

    Raises:
        MalformedResponse: as :func:`decode_response_values`, for the original.
        ValueError: a value cannot be written as JSON.
    """
    before = decode_response_values(original)
    text = original.strip()  # what decode_response reads
    whole = decode_json(text)
    if isinstance(whole, list):  # it has an error object, because other lists do not decode
        whole[0] = _merge(whole[0], before.to_json(), values.to_json())
    else:
        whole = _merge(whole, before.to_json(), values.to_json())
    head, _, tail = original.partition(text)
    return head + splice_json(text, whole) + tail


def _merge(body: JsonObject, before: JsonObject, after: JsonObject) -> JsonObject:
    """Merge changes into a body; meanwhile its choices are in the order of the values."""
    entries = list_of(body.get("choices"))
    places = _places_of_choices(entries)
    ordered = {"choices": [entries[place] for place in places]} if entries else {}
    merged: JsonObject = merge_changes(body | ordered, before, after)
    choices = merged.get("choices")
    if not (entries and isinstance(choices, list)):
        return merged
    if len(choices) == len(places):
        by_place = dict(zip(places, choices, strict=True))
        choices = [by_place[place] for place in sorted(places)]
    rest = {place: entries[place] for place in sorted({*range(len(entries))} - {*places})}
    return merged | {"choices": insert_at(choices, rest)}


def _read(response: ChatResponse, body: JsonObject) -> ResponseValues:
    listed = body.get("choices")
    entries = list_of(listed)
    places = _places_of_choices(entries)
    choices = tuple(decode_choice(entries[place], place=place) for place in places)
    api_specific: JsonObject = {
        name: body[name] for name in _API_SPECIFIC if body.get(name) is not None
    }
    if choices and choices[0].logprobs is not None:
        api_specific["logprobs"] = choices[0].logprobs
    empty = [name for name in ("id", "model") if body.get(name) == ""]
    read: dict[str, Any] = {"id": response.id, "model": response.model, "usage": response.usage}
    read["choices"] = listed if isinstance(listed, list) else None
    return ResponseValues(
        id=response.id,
        model=response.model,
        choices=choices,
        usage=response.usage,
        cost=response.cost,
        api_specific=api_specific,
        extra=without_nulls(others(body, *_API_SPECIFIC, *empty, **read)),
    )


def _places_of_choices(entries: list[Any]) -> list[int]:
    """Return where the choices stand, in the order of their indices."""
    numbered = []
    for place, entry in enumerate(entries):
        if isinstance(entry, dict):
            index = index_of(entry.get("index"))
            numbered.append((place if index is None else index, place))
    return [place for _, place in sorted(numbered)]
