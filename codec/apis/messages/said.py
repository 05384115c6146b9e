"""A message: what was said in blocks, how many tokens it took, and why it ended.

See ``docs/contract/apis.md#messages-answer``. The answer is one message, whatever its blocks are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.apis.messages.blocks import CALLS, is_result, kind_of, read_blocks
from codec.apis.messages.counts import read_counts, read_message_charges
from codec.bodies import decode_response_object
from codec.cost import decode_cost
from codec.error_objects import find_error
from codec.members import list_of, object_of, text_of
from codec.parts import Message
from codec.said import Answer, Ending, Said, Stop
from codec.text.jsontext import is_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codec.charges import Charges
    from codec.said import ErrorObject
    from codec.text.jsontext import JsonObject
    from codec.usage import Usage

__all__ = ("MessageAnswer", "make_answer", "read_answer")

_STOPS: Final = {
    "end_turn": Stop.STOP,
    "stop_sequence": Stop.STOP,
    "pause_turn": Stop.STOP,
    "max_tokens": Stop.LENGTH,
    "model_context_window_exceeded": Stop.LENGTH,
    "tool_use": Stop.TOOL_CALL,
    "refusal": Stop.CONTENT_FILTER,
}
_REFUSAL: Final = "refusal"


class MessageAnswer(Said, frozen=True, kw_only=True):
    """Answer of the Messages API.

    Attributes:
        has_end: the event that ends a stream came; a plain answer is a message.
    """

    has_end: bool = False

    @property
    def finish_reason(self) -> str | None:
        """The reason why the message ended, in the provider's word."""
        return text_of(self.body.get("stop_reason"))

    def read_answers(self) -> Sequence[Answer]:
        """Read the one message, with all blocks in their order."""
        if not self.body:
            return ()
        word = self.finish_reason
        blocks = [one for one in list_of(self.body.get("content")) if not is_result(one)]
        message = Message(text_of(self.body.get("role")), *read_blocks(blocks))
        return [Answer(index=0, message=message, finish_reason=word, stop=_STOPS.get(word or ""))]

    @property
    def finish_reasons(self) -> Sequence[tuple[int, str]]:
        """The reason why the message ended."""
        return [] if (word := self.finish_reason) is None else [(0, word)]

    @property
    def refused(self) -> Sequence[int]:
        """The index of the message, if the model or a filter declined to continue."""
        return [0] if self.finish_reason == _REFUSAL else []

    def read_charges(self) -> Charges:
        """Read what the message is billed by besides its counts."""
        return read_message_charges(self.body, self.usage.raw if self.usage is not None else {})

    def ending(self, *, streamed: bool) -> Ending:
        """Tell how far the message came.

        A reason to end is the end, whatever happens to the connection afterwards. A stream is
        complete even if the event ``message_stop`` does not follow; the lack is noted.
        """
        if self.has_end or self.finish_reason is not None:
            return Ending.COMPLETE
        return Ending.OPEN if streamed else Ending.STOPPED


def read_answer(body: bytes) -> MessageAnswer:
    """Read the body of an answer, or of an error.

    Raises:
        MalformedResponse: it is not a JSON object.
    """
    value = decode_response_object(body)
    error = find_error(value)
    is_message = value.get("type") == "message" or isinstance(value.get("content"), list)
    if error is not None or not is_message:
        foreign = () if error is not None else ("foreign_chunk",)
        return make_answer(value, value.get("usage"), error=error, anomalies=foreign)
    return make_answer(value, value.get("usage"), has_end=True)


def make_answer(
    body: JsonObject,
    usage: Any,
    *,
    error: ErrorObject | None = None,
    anomalies: Sequence[str] = (),
    has_end: bool = False,
    is_cut: bool = False,
) -> MessageAnswer:
    """Make an answer of a whole message.

    Args:
        body: the message.
        usage: its last counts.
        error: the error that came instead, or in the middle.
        anomalies: what was odd in the stream or the body.
        has_end: as :class:`MessageAnswer` has it.
        is_cut: the message came as a stream without its last counts.
    """
    counts = read_counts(usage, is_cut=is_cut)
    return MessageAnswer(
        id=text_of(body.get("id")),
        model=text_of(body.get("model")),
        usage=counts,
        cost=decode_cost(counts.raw if counts is not None else {}, body),
        error=error,
        anomalies=(*anomalies, *_judge(body, counts, error, has_end=has_end)),
        body=body,
        has_end=has_end,
    )


def _judge(
    body: Mapping[str, Any], usage: Usage | None, error: ErrorObject | None, *, has_end: bool
) -> Iterator[str]:
    """Judge the whole (``docs/contract/spans.md#anomalies``)."""
    word = text_of(body.get("stop_reason"))
    if word is not None and any(map(_has_bad_arguments, list_of(body.get("content")))):
        yield "bad_tool_arguments"
    if error is not None:
        return
    if word is None:
        yield "no_finish_reason"
    elif not has_end:
        yield "no_message_stop"
    if usage is None:
        yield "no_usage"
    else:
        yield from usage.anomalies


def _has_bad_arguments(block: Any) -> bool:
    """Tell whether a call's arguments stayed text, because they are not JSON."""
    asked = object_of(block).get("input")
    return isinstance(asked, str) and kind_of(block) in CALLS and not is_json(asked)
