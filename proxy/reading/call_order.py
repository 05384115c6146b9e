"""The messages of a call in the order in which a person wants to read them: new ones first.

New are the user's newest text and everything after it. Every message is in exactly one part of
:class:`Conversation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codec.observations import find_task, has_words, read_observations
from codec.parts import Message, Text
from telemetry.spans.wrappers import Room, find_own_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.reading.flat_messages import RecordedMessage

MAX_NEW: Final = 10
"""How many messages after the user's newest text are shown whole: the last steps of an agent."""

MAX_EARLIER: Final = 4
"""How many messages before the user's newest text are shown whole: usually the last turn."""

_SYSTEM_ROLES: Final = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The messages of a request, in parts; each part is in the order in which it was sent.

    Attributes:
        system: the system messages at the beginning.
        question: the user's newest text; empty if there is none.
        between: steps of an agent after the question, except the last ones.
        latest: the last messages.
        earlier: the messages just before the question.
        older: all messages before those.
    """

    system: Sequence[RecordedMessage]
    question: Sequence[RecordedMessage]
    between: Sequence[RecordedMessage]
    latest: Sequence[RecordedMessage]
    earlier: Sequence[RecordedMessage]
    older: Sequence[RecordedMessage]


def order_messages(messages: Sequence[RecordedMessage]) -> Conversation:
    """Divide the messages of a request into new and earlier ones."""
    begin = next((at for at, one in enumerate(messages) if not is_system(one)), len(messages))
    system, rest = messages[:begin], messages[begin:]
    asked, is_question = _find_newest(rest)
    end = asked + 1 if is_question else asked
    before, behind = rest[:asked], rest[end:]
    # If the texts are not a conversation, for example texts to embed, all are new.
    has_steps = end > asked or asked > 0
    cut = max(0, len(behind) - MAX_NEW) if has_steps else 0
    split = max(0, len(before) - MAX_EARLIER)
    return Conversation(
        system=system,
        question=rest[asked:end],
        between=behind[:cut],
        latest=behind[cut:],
        earlier=before[split:],
        older=before[:split],
    )


def is_system(message: RecordedMessage) -> bool:
    """Tell whether a message has instructions of the program for the model."""
    return message.role in _SYSTEM_ROLES


def find_question(messages: Sequence[RecordedMessage]) -> str | None:
    """Find the user's newest words, without what agents put around them."""
    return next(filter(None, _list_own_words(messages)), None)


def _find_newest(messages: Sequence[RecordedMessage]) -> tuple[int, bool]:
    """Find the first new message: the user's newest text, else the one after the last answer.

    The second value tells whether it is the user's.
    """
    last = len(messages) - 1
    for back, words in enumerate(_list_own_words(messages)):
        if words:
            return last - back, True
    answers = (at for at in range(last - 1, -1, -1) if messages[at].role == "assistant")
    return next(answers, -1) + 1, False


def _list_own_words(messages: Sequence[RecordedMessage]) -> Iterator[str]:
    """Yield the user's own words in each message, the last one first.

    They are empty if a message has none, or is a tool's result.
    """
    room = Room()
    sent = [Message(one.role, tuple(map(Text, _list_texts(one)))) for one in messages]
    read = read_observations(sent)
    for message, told in zip(reversed(messages), reversed(read), strict=True):
        texts = _list_texts(message)
        if message.role != "user" or message.tool_call_id is not None:
            texts = []
        elif read is not sent:
            texts = [*map(find_task, texts)] if has_words(told) else []
        yield find_own_words(texts, room).text.strip()


def _list_texts(message: RecordedMessage) -> list[str]:
    return [part.text for part in message.parts if part.kind == "text"]
