"""An answer of a chat in llama-stack's words: text, log probabilities, and why it stopped.

There are two maps of finish reasons, one for each of llama-stack's two APIs
(``docs/contract/sources.md#s3-1``). Unlike there, a null or an empty word overwrites nothing
(``docs/contract/wire.md#finish-reasons``).

Some servers leave end markers in the text (``docs/contract/sources.md#s3-3``). They are cut from a
copy of the text; the client's answer is never changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from codec.chat.accumulator import Accumulator
from codec.members import list_of, object_of
from codec.text.integers import index_of

if TYPE_CHECKING:
    from codec.chat.answer import ChatResponse

__all__ = (
    "END_MARKERS",
    "MAX_MARKERS",
    "AnswerProgress",
    "EndMarkerFilter",
    "ProgressKind",
    "ProgressStep",
    "StopReason",
    "TokenLogprobs",
    "cut_end_markers",
    "decode_logprobs",
    "stop_reason_of_chat",
    "stop_reason_of_completion",
    "text_of_choice",
)


class StopReason(StrEnum):
    """Why generation stopped."""

    END_OF_TURN = "end_of_turn"
    """The assistant has finished its turn."""
    END_OF_MESSAGE = "end_of_message"
    """The model waits for something, usually a tool's result."""
    OUT_OF_TOKENS = "out_of_tokens"
    """The answer was cut."""


_OF_COMPLETIONS = {
    "stop": StopReason.END_OF_TURN,
    "eos": StopReason.END_OF_TURN,
    "eos_token": StopReason.END_OF_TURN,
    "eom": StopReason.END_OF_MESSAGE,
}
_OF_CHATS = {
    "length": StopReason.OUT_OF_TOKENS,
    "tool_calls": StopReason.END_OF_MESSAGE,
}


def stop_reason_of_completion(finish_reason: str | None) -> StopReason | None:
    """Read the finish reason of a legacy completion; an unknown one means that it was cut."""
    if not finish_reason:
        return None
    return _OF_COMPLETIONS.get(finish_reason, StopReason.OUT_OF_TOKENS)


def stop_reason_of_chat(finish_reason: str | None) -> StopReason | None:
    """Read the finish reason of a chat; an unknown one means the end of the turn."""
    if not finish_reason:
        return None
    return _OF_CHATS.get(finish_reason, StopReason.END_OF_TURN)


END_MARKERS = {
    "<|eot_id|>": StopReason.END_OF_TURN,
    "<|eom_id|>": StopReason.END_OF_MESSAGE,
}
"""Llama's markers, with the meaning of each."""

MAX_MARKERS = 64
"""The most markers that are cut at the end. One is usual. A server that repeats its marker for ever
must not make us hold all of them."""

_LONGEST = max(map(len, END_MARKERS))


def cut_end_markers(text: str, stop: StopReason | None) -> tuple[str, StopReason | None]:
    """Cut the markers at the end of a choice's whole text; the last one overrides the reason."""
    whole = _start_of_markers(text, len(text))
    reasons = (reason for marker, reason in END_MARKERS.items() if text.endswith(marker))
    return text[:whole], next(reasons, stop)


class EndMarkerFilter:
    """Cuts end markers from the text of a stream, also one that comes in pieces.

    Attributes:
        stop: the meaning of the last marker at the end, after :meth:`finish`.

    >>> markers = EndMarkerFilter()
    >>> [markers.feed(piece) for piece in ("Hi", "<|eot", "_id|>")], markers.finish(), markers.stop
    (['Hi', '', ''], '', <StopReason.END_OF_TURN: 'end_of_turn'>)
    """

    def __init__(self) -> None:
        self.stop: StopReason | None = None
        self._held = ""  # what may be markers at the end, less than one beyond whole ones

    def feed(self, text: str) -> str:
        """Feed a piece of text and return what cannot be a marker at the end."""
        self._held += text
        start = _start_of_markers(self._held, _start_of_unfinished(self._held))
        passed, self._held = self._held[:start], self._held[start:]
        return passed

    def finish(self) -> str:
        """End the text and return what was held back and is not a marker."""
        rest, self.stop = cut_end_markers(self._held, None)
        self._held = ""
        return rest


def _start_of_unfinished(text: str) -> int:
    """Return where an unfinished marker at the end of a text begins."""
    longest = min(_LONGEST - 1, len(text))
    ends = (text[-length:] for length in range(longest, 0, -1))
    begun = (end for end in ends if any(marker.startswith(end) for marker in END_MARKERS))
    return len(text) - len(next(begun, ""))


def _start_of_markers(text: str, end: int) -> int:
    """Return where the whole markers before a place in a text begin."""
    for _ in range(MAX_MARKERS):
        found = next((marker for marker in END_MARKERS if text.endswith(marker, 0, end)), "")
        end -= len(found)
    return end


def text_of_choice(choice: Any) -> str | None:
    """Return the delta's content, else the message's, else the text of any entry of ``choices``.

    See ``docs/contract/sources.md#s3-2``.
    """
    members = object_of(choice)
    contents = [object_of(members.get(name)).get("content") for name in ("delta", "message")]
    return next((text for text in (*contents, members.get("text")) if isinstance(text, str)), None)


TokenLogprobs = tuple[dict[str, float], ...]
"""For each token its reported alternatives, with the token itself if it was reported."""


def decode_logprobs(value: Any, *, text: str = "") -> TokenLogprobs | None:
    """Read the ``logprobs`` of a choice (``docs/contract/sources.md#s3-4``).

    The shapes are: a chat's ``content`` of tokens with alternatives; a completion's
    ``top_logprobs``, or its ``tokens`` beside ``token_logprobs``; and a single number for the one
    token of a chunk.

    Args:
        value: the member, of any JSON type.
        text: the chunk's text, to which a single number belongs.

    Returns:
        ``None`` if there are none.
    """
    if _is_number(value):
        return ({text: value},)
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("content"), list):
        return tuple(_of_token(token) for token in value["content"] if isinstance(token, dict))
    if isinstance(value.get("top_logprobs"), list):
        return tuple(_numbers(top) for top in value["top_logprobs"])
    tokens, numbers = value.get("tokens"), value.get("token_logprobs")
    if isinstance(tokens, list) and isinstance(numbers, list):
        pairs = zip(tokens, numbers, strict=False)
        return tuple(_numbers({token: number}) for token, number in pairs if isinstance(token, str))
    return None


def _of_token(token: dict[str, Any]) -> dict[str, float]:
    candidates = [*list_of(token.get("top_logprobs")), token]
    return {
        one["token"]: one["logprob"]
        for one in candidates
        if isinstance(one, dict)
        and isinstance(one.get("token"), str)
        and _is_number(one.get("logprob"))
    }


def _numbers(value: Any) -> dict[str, float]:
    """Return the members that are numbers; the first token of a prompt has none."""
    return {token: number for token, number in object_of(value).items() if _is_number(number)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class ProgressKind(StrEnum):
    """The kind of a step."""

    START = "start"
    PROGRESS = "progress"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressStep:
    """A step of an answer.

    Attributes:
        choice: the choice's index; 0 for the start.
        text: the new text, in a step of progress.
        stop: why the choice stopped, in a step of completion; ``None`` if the provider did not say.
    """

    kind: ProgressKind
    choice: int = 0
    text: str = ""
    stop: StopReason | None = None


class AnswerProgress:
    """Turns chunks of a chat or a legacy completion into steps. Not safe for concurrent calls.

    An answer is a start, its progress and its completion, for all choices
    (``docs/contract/sources.md#s3-9``). A chunk that says nothing, or has no choices, adds nothing.
    End markers stay in the text; :class:`EndMarkerFilter` cuts them.
    """

    def __init__(self) -> None:
        self._accumulator = Accumulator()
        self._started = False
        self._legacy: set[int] = set()  # choices of a legacy completion

    def feed(self, chunk: Any) -> list[ProgressStep]:
        """Feed a chunk and return the steps it makes."""
        self._accumulator.feed(chunk)
        steps = [] if self._started else [ProgressStep(kind=ProgressKind.START)]
        self._started = True
        for position, choice in enumerate(list_of(object_of(chunk).get("choices"))):
            if not isinstance(choice, dict):
                continue
            index = index_of(choice.get("index"))
            index = position if index is None else index
            delta = choice.get("delta")
            if not isinstance(delta, dict) and isinstance(choice.get("text"), str):
                self._legacy.add(index)
            # What stands beside a delta repeats it (Perplexity, Together).
            if text := text_of_choice({"delta": delta} if isinstance(delta, dict) else choice):
                step = ProgressStep(kind=ProgressKind.PROGRESS, choice=index, text=text)
                steps.append(step)
        return steps

    def finish(self) -> tuple[list[ProgressStep], ChatResponse]:
        """End the stream: one completion for each choice, and the whole answer."""
        response = self._accumulator.response()
        steps = [
            ProgressStep(
                kind=ProgressKind.COMPLETE,
                choice=choice.index,
                stop=stop_reason_of_completion(choice.finish_reason)
                if choice.index in self._legacy
                else stop_reason_of_chat(choice.finish_reason),
            )
            for choice in response.choices
        ]
        return steps, response
