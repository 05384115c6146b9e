"""The messages of a call in the order in which a person wants them: what is new first.

Rules:

1. New is the user's newest text and what follows it. Of much that follows, as an agent's steps are,
   the last :data:`MAX_NEW` are whole.
2. The :data:`MAX_EARLIER` messages before it are whole; those before them are older.
3. System messages stand apart where the conversation begins with them.
4. Every message is in one of the parts, and in one alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codec.compared_text import without_reminders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.reading.flat_messages import RecordedMessage

MAX_NEW: Final = 10
"""Messages behind the user's newest text that are shown whole: the last steps of an agent."""

MAX_EARLIER: Final = 4
"""Messages before the user's newest text that are shown whole: the last turn, usually."""

_SYSTEM_ROLES: Final = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The messages of a request, in parts; each part is in the order in which it was sent.

    Attributes:
        system: those that it begins with.
        question: the user's newest text; none where nobody asked anything.
        between: steps of an agent behind that, but for the last ones.
        latest: the last ones.
        earlier: those before the question.
        older: those before them.
    """

    system: Sequence[RecordedMessage]
    question: Sequence[RecordedMessage]
    between: Sequence[RecordedMessage]
    latest: Sequence[RecordedMessage]
    earlier: Sequence[RecordedMessage]
    older: Sequence[RecordedMessage]


def order_messages(messages: Sequence[RecordedMessage]) -> Conversation:
    """Divide the messages of a request into what is new, and what is not."""
    begin = next((at for at, one in enumerate(messages) if not is_system(one)), len(messages))
    system, rest = messages[:begin], messages[begin:]
    asked = _find_newest(rest)
    end = asked + 1 if asked < len(rest) and _is_question(rest[asked]) else asked
    before, behind = rest[:asked], rest[end:]
    # Texts that are no conversation, as those to be embedded, are all of them new.
    is_run = end > asked or asked > 0
    cut = max(0, len(behind) - MAX_NEW) if is_run else 0
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
    """Tell whether a message is the program's own word to the model."""
    return message.role in _SYSTEM_ROLES


def _find_newest(messages: Sequence[RecordedMessage]) -> int:
    """Find where what is new begins: at the user's newest text, else behind the last answer."""
    last = len(messages) - 1
    for at in range(last, -1, -1):
        if _is_question(messages[at]):
            return at
    answers = (at for at in range(last - 1, -1, -1) if messages[at].role == "assistant")
    return next(answers, -1) + 1


def _is_question(message: RecordedMessage) -> bool:
    """Tell whether a message is the user's words, and not what a tool has answered."""
    if message.role != "user" or message.tool_call_id is not None:
        return False
    texts = (part.text for part in message.parts if part.kind == "text")
    return any(without_reminders(text).strip() for text in texts)
