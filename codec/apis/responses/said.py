"""A response: what was said in items, how many tokens it took, how it ended, and what is billed.

See ``docs/contract/apis.md#responses-answer``. Each item is a message, known by its place in the
list. A response that failed has an error object, or says so by its status alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from codec.apis.responses.asked import read_tools
from codec.apis.responses.items import read_output_item
from codec.bodies import decode_response_object
from codec.charges import Charges, read_charges
from codec.cost import decode_cost
from codec.error_objects import find_error
from codec.members import list_of, object_of, text_of
from codec.parts import Message
from codec.said import Answer, Ending, Said, Stop
from codec.text.base64_text import TakenPictures
from codec.text.integers import count_of
from codec.text.jsontext import is_json
from codec.usage import decode_token_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codec.asked import Tool
    from codec.said import ErrorObject
    from codec.text.jsontext import JsonObject
    from codec.usage import Usage

__all__ = ("ResponseAnswer", "make_answer", "read_response")

_STOPS: Final = {
    "completed": Stop.STOP,
    "max_output_tokens": Stop.LENGTH,
    "content_filter": Stop.CONTENT_FILTER,
    "failed": Stop.ERROR,
}
_CLIENT_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
_COMPACTION: Final = "response.compaction"
"""The type of the object that replaces the items of a long conversation; it has no status."""

_WITH_USAGE: Final = frozenset({"completed", "incomplete"})


class ResponseAnswer(Said, frozen=True, kw_only=True):
    """Answer of the Responses API.

    Attributes:
        is_cut: the response came as a stream, and its end is missing.
    """

    is_cut: bool = False

    @property
    def items(self) -> Sequence[Any]:
        """The items as they came."""
        return list_of(self.body.get("output"))

    @property
    def status(self) -> str | None:
        """The status of the response at its end; ``None`` if the end is missing."""
        return None if self.is_cut else text_of(self.body.get("status"))

    def read_answers(self) -> Sequence[Answer]:
        """Read a message for each item."""
        return [
            Answer(index=index, message=read_output_item(item))
            for index, item in enumerate(self.items)
        ]

    @property
    def choices_of_answers(self) -> Sequence[Answer]:
        """Join the parts of all messages in one message, because there is one choice."""
        messages = [answer.message for answer in self.answers]
        if not messages:
            return ()
        parts = tuple([part for message in messages for part in message.parts])
        role = next((message.role for message in messages if message.role), None)
        word = self._finish_reason
        stop = _STOPS.get(word or "")
        if stop is Stop.STOP and any(_kind_of(item) in _CLIENT_CALLS for item in self.items):
            stop = Stop.TOOL_CALL
        return [Answer(index=0, message=Message(role, parts), finish_reason=word, stop=stop)]

    @property
    def finish_reasons(self) -> Sequence[tuple[int, str]]:
        """The reason why the response ended, in the provider's own words.

        It is the reason for which the response is incomplete, else its status. A stream that broke
        off has none, because the status that it began with is not an end.
        """
        return [] if (word := self._finish_reason) is None else [(0, word)]

    @property
    def failed_choice(self) -> tuple[int, str] | None:
        """The error of an answer that failed without one."""
        return (0, "failed") if self.status == "failed" else None

    @property
    def refused(self) -> Sequence[int]:
        """The index of each message that declines to answer."""
        return [index for index, item in enumerate(self.items) if _refuses(item)]

    def read_tools(self) -> Sequence[Tool]:
        """Read the tools of the stored prompt that was used."""
        return read_tools(self.body.get("tools")) if self.body.get("prompt") else ()

    def read_charges(self) -> Charges:
        """Read what the response is billed by besides its counts."""
        return _read_response_charges(self.body, self.usage.raw if self.usage is not None else {})

    def is_foreign(self, *, streamed: bool) -> bool:
        """Tell whether it is not a response at all; an empty one that has begun is a response."""
        return super().is_foreign(streamed=streamed) and not (streamed and self.body)

    def ending(self, *, streamed: bool) -> Ending:
        """Tell how far the response came; one made in the background is a whole answer."""
        if self.status == "cancelled":
            return Ending.CANCELLED
        if streamed:
            return Ending.OPEN if self.is_cut else Ending.COMPLETE
        is_whole = self.body.get("object") in ("response", _COMPACTION)
        return Ending.COMPLETE if is_whole else Ending.STOPPED

    @property
    def _finish_reason(self) -> str | None:
        if self.is_cut:
            return None
        return text_of(object_of(self.body.get("incomplete_details")).get("reason")) or self.status


def read_response(body: bytes, pictures: TakenPictures | None = None) -> ResponseAnswer:
    """Read the body of an answer, or of an error; `pictures` gets those that are taken out.

    Raises:
        MalformedResponse: it is not a JSON object.
    """
    value = decode_response_object(body)
    pictures = TakenPictures() if pictures is None else pictures
    for item in list_of(value.get("output")):
        pictures.shorten(object_of(item))
    is_response = value.get("object") == "response" or isinstance(value.get("output"), list)
    error = find_error(value)
    foreign = () if is_response or error is not None else ("foreign_chunk",)
    return make_answer(value, error=error, anomalies=foreign)


def make_answer(
    body: JsonObject,
    *,
    error: ErrorObject | None = None,
    anomalies: Sequence[str] = (),
    is_cut: bool = False,
) -> ResponseAnswer:
    """Make an answer of a response object, whole or as far as it is known."""
    usage = decode_token_usage(body.get("usage"))
    return ResponseAnswer(
        id=text_of(body.get("id")),
        model=text_of(body.get("model")),
        created=count_of(body.get("created_at")),
        system_fingerprint=text_of(body.get("system_fingerprint")),
        service_tier=text_of(body.get("service_tier")),
        usage=usage,
        cost=decode_cost(usage.raw if usage is not None else {}, body),
        error=error,
        anomalies=(*anomalies, *_judge(body, usage, error, is_cut=is_cut)),
        body=body,
        is_cut=is_cut,
    )


def _judge(
    body: Mapping[str, Any], usage: Usage | None, error: ErrorObject | None, *, is_cut: bool
) -> Iterator[str]:
    """Judge the whole (``docs/contract/spans.md#anomalies``)."""
    status = None if is_cut else text_of(body.get("status"))
    if status == "completed" and any(map(_has_bad_arguments, list_of(body.get("output")))):
        yield "bad_tool_arguments"
    if usage is not None:
        yield from usage.anomalies
    if error is None and status is None and body.get("object") != _COMPACTION:
        yield "no_finish_reason"
    if error is None and usage is None and (is_cut or status in _WITH_USAGE):
        yield "no_usage"


def _has_bad_arguments(item: Any) -> bool:
    arguments = text_of(object_of(item).get("arguments"))
    return arguments is not None and _kind_of(item) == "function_call" and not is_json(arguments)


def _refuses(item: Any) -> bool:
    parts = list_of(object_of(item).get("content"))
    return any(_kind_of(part) == "refusal" and bool(part.get("refusal")) for part in parts)


def _kind_of(value: Any) -> str | None:
    return text_of(object_of(value).get("type"))


_WEB: Final = "web_search_call"
_FILES: Final = "file_search_call"
_PREVIEW: Final = "web_search_preview"
_UNKNOWN: Final = frozenset({"code_interpreter_call", "image_generation_call"})
_SHELL: Final = "shell_call"
_NOT_SEARCHED: Final = frozenset({"open_page", "find_in_page", "find"})


def _read_response_charges(body: Mapping[str, Any], raw: Mapping[str, Any]) -> Charges:
    """Read what a response is billed by: besides its counts, the provider's own tools.

    Searches of the web and of files are billed by the call; opening a page is not, nor is a call
    that failed. If the provider counts its searches itself, that count is taken. The preview of the
    web search has prices of a different kind, images that a tool made cost what their model costs,
    and containers are billed by time: these are named as unknown.

    Args:
        body: the response.
        raw: its usage.
    """
    items = [object_of(item) for item in list_of(body.get("output"))]
    kinds = [text_of(item.get("type")) or "" for item in items if item.get("status") != "failed"]
    unknown = [kind for kind in kinds if kind in _UNKNOWN]
    unknown += [_SHELL for item in items if item.get("type") == _SHELL and _is_hosted(item)]
    used = object_of(body.get("tool_usage"))
    counted = count_of(object_of(used.get("web_search")).get("num_requests"))
    searches = sum(map(_searches, items)) if counted is None else counted
    if searches and any(map(_is_preview, list_of(body.get("tools")))):
        unknown.append(_PREVIEW)
    charges = read_charges(raw, unknown=tuple(unknown))
    files = kinds.count(_FILES)
    if not searches and not files:
        return charges
    searches = max(searches, charges.web_searches)
    return replace(charges, web_searches=searches, file_searches=files)


def _searches(item: Mapping[str, Any]) -> bool:
    if item.get("type") != _WEB or item.get("status") == "failed":
        return False
    return object_of(item.get("action")).get("type") not in _NOT_SEARCHED


def _is_preview(tool: Any) -> bool:
    return (text_of(object_of(tool).get("type")) or "").startswith(_PREVIEW)


def _is_hosted(item: Mapping[str, Any]) -> bool:
    kind = text_of(object_of(item.get("environment")).get("type")) or ""
    return kind.startswith("container")
