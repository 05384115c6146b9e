"""What agents put around the user's words, as data, and the words without it.

A coding agent sends the user's question among reminders, descriptions of its surroundings and whole
files, in the same message. Lists and titles show the question. Each row of :data:`WRAPPERS` is
something that an agent was seen to send; the call itself keeps the whole text.

Conversations are compared by :mod:`codec.compared_text`, which knows the reminders alone.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Treatment(Enum):
    """What becomes of a wrapper and of what is inside it."""

    DROP = "drop"
    """It is removed, wherever it stands."""
    DROP_FILES = "drop files"
    """It is removed, and may end in a later part of the message."""
    DROP_OPENING = "drop opening"
    """It is removed if the part begins with it: users may write these words themselves."""
    KEEP_INSIDE = "keep inside"
    """If the part begins with it, or with its lead, the user's words are inside."""


class Wrapper(NamedTuple):
    """A row of the table.

    Attributes:
        agent: the program that was seen to send it.
        start: how it begins.
        end: how it ends; empty if that is the end of the part. A wrapper whose end is missing
            reaches to the end of the part, too.
        treatment: what becomes of it.
        lead: what the agent itself says before it.
    """

    agent: str
    start: str
    end: str = ""
    treatment: Treatment = Treatment.DROP
    lead: str = ""


def _tag(agent: str, name: str, treatment: Treatment = Treatment.DROP, lead: str = "") -> Wrapper:
    return Wrapper(agent, f"<{name}>", f"</{name}>", treatment, lead)


_OPENING: Final = Treatment.DROP_OPENING
_INSIDE: Final = Treatment.KEEP_INSIDE

WRAPPERS: Final = (
    _tag("claude-code", "system-reminder"),  # qwen-code, kimi-code and grok send these, too
    _tag("claude-code", "local-command-caveat"),
    _tag("claude-code", "local-command-stdout"),
    _tag("claude-code", "command-name"),
    _tag("claude-code", "command-message"),
    _tag("claude-code", "command-args"),
    _tag("claude-code", "task-notification"),
    _tag("claude-code", "session", _INSIDE),  # what it wants a title for
    Wrapper("claude-code", "This session is being continued", treatment=_OPENING),
    Wrapper("claude-code", "[Subagent hand-back]", treatment=_OPENING),
    Wrapper("claude-code", "CRITICAL: Respond with TEXT ONLY", treatment=_OPENING),
    _tag("codex", "environment_context"),
    _tag("codex", "user_instructions"),
    _tag("codex", "recommended_plugins"),
    _tag("codex", "subagent_notification"),
    Wrapper("codex", "# AGENTS.md instructions for ", "</INSTRUCTIONS>", _OPENING),
    _tag("gemini-cli", "session_context"),
    _tag("gemini-cli", "objective", _INSIDE, lead="Your task is to"),  # a sub-agent's
    Wrapper(
        "gemini-cli",
        "--- Content from referenced files ---",
        "--- End of content ---",
        Treatment.DROP_FILES,
    ),
    Wrapper("qwen-code", "Managed memory has TWO directories", treatment=_OPENING),
    _tag("copilot", "current_datetime"),
    _tag("copilot", "system_notification"),
    _tag("grok", "user_query", _INSIDE),
    _tag("grok", "user_info"),
    _tag("grok", "attached_files"),
    _tag("grok", "rules", _OPENING),
    Wrapper(
        "crewai",
        "Current Task: ",
        "\n\nThis is the expected criteria for your final answer: ",
        _INSIDE,
    ),
    Wrapper("opencode", "Generate a title for this conversation:", treatment=_OPENING),
    Wrapper("aider", "# *SEARCH/REPLACE block* Rules"),
    Wrapper("dspy", "Respond with the corresponding output fields, starting with the field `[[ ##"),
    Wrapper("dspy", "Respond with a JSON object in the following order of fields: `"),
)
"""Everything that agents are known to put around the user's words."""

MAX_SEARCHED_CHARS: Final = 262_144
"""How many characters of a call's texts are searched for wrappers: a quarter of what a span shows
of one text."""

_MAX_LEAD_CHARS: Final = 1_000
"""How long the words before a tag may be whose inside is kept."""


class Room:
    """How much may still be searched, of all texts of one call.

    Attributes:
        chars: the characters that are left.
    """

    __slots__ = ("chars",)

    def __init__(self) -> None:
        self.chars = MAX_SEARCHED_CHARS


class OwnWords(NamedTuple):
    """What is left of the texts of a user's message.

    Attributes:
        text: the user's words; empty if there are none.
        is_wrapped: something was left out.
    """

    text: str
    is_wrapped: bool


def find_own_words(texts: Sequence[str], room: Room | None = None) -> OwnWords:
    """Find the user's own words among the texts of a message, one text for each part.

    If an agent added nothing, all texts are the user's. Otherwise the last text that is left has
    the words, because most agents put what they add before it. Beyond the room, wrappers stay.

    Args:
        texts: those of one message.
        room: what the messages of a call share; without it, this message has all of it.

    >>> find_own_words(["<system-reminder>Mind the gap.</system-reminder>", "Fix it"]).text
    'Fix it'
    """
    for text in texts:
        if _may_be_wrapped(text):
            break
    else:
        return OwnWords(texts[0] if len(texts) == 1 else "\n".join(texts), is_wrapped=False)
    stripped = _strip_all(texts, Room() if room is None else room)
    left = [text for text in stripped if text and not text.isspace()]
    bare = [text for text in left if not _is_unknown_wrapper(text)] or left
    if len(bare) == len(texts) and all(one is text for one, text in zip(bare, texts, strict=True)):
        return OwnWords("\n".join(texts), is_wrapped=False)
    return OwnWords(bare[-1] if bare else "", is_wrapped=True)


class Piece(NamedTuple):
    """A piece of a text.

    Attributes:
        is_added: an agent put it around the user's words.
    """

    text: str
    is_added: bool


def split_added(texts: Sequence[str]) -> list[list[Piece]]:
    """Split the texts of a message into what an agent added and the rest; nothing is left out.

    >>> split_added(["<system-reminder>Mind.</system-reminder>Fix it"])[0][1]
    Piece(text='Fix it', is_added=False)
    """
    room, awaited = Room(), ""
    found: list[list[Piece]] = []
    for text in texts:
        pieces: list[Piece] = []
        at = 0
        if awaited:
            before, is_there, _ = text.partition(awaited)
            at = len(before) + len(is_there)
            pieces.append(Piece(text[:at], is_added=True))
            awaited = "" if is_there else awaited
        rest = text[at:]
        if _may_be_wrapped(rest):
            at = 0
            for start, end, goes_on in _list_wrappers(rest, room):
                pieces.append(Piece(rest[at:start], is_added=False))
                pieces.append(Piece(rest[start:end], is_added=True))
                at, awaited = end, goes_on
            rest = rest[at:]
        found.append([*pieces, Piece(rest, is_added=False)])
    has_words = [any(not one.is_added and one.text.strip() for one in each) for each in found]
    for at, text in enumerate(texts):
        if has_words.count(True) > 1 and has_words[at] and _is_unknown_wrapper(text):
            found[at], has_words[at] = [Piece(text, is_added=True)], False
    return [[one for one in pieces if one.text] for pieces in found]


def drop_quotes(text: str) -> str:
    """Return what is between the quotes around all of a text; else the text itself.

    opencode puts its command line's words in quotes, and a backslash before those within.
    """
    if text[:1] != '"' or len(text) > MAX_SEARCHED_CHARS:
        return text
    found = _QUOTED.fullmatch(text)
    return text if found is None else found[1].replace('\\"', '"')


def _strip_all(texts: Iterable[str], room: Room) -> Iterator[str]:
    """Yield what is left of each text; the same object if that is all of it."""
    awaited = ""  # the end of files that began in an earlier text
    for text in texts:
        rest = text
        if awaited:
            _, is_there, rest = text.partition(awaited)
            awaited = "" if is_there else awaited
        if _may_be_wrapped(rest):
            rest, awaited = _strip(rest, room)
        yield rest


def _strip(text: str, room: Room) -> tuple[str, str]:
    """Return a text without its wrappers, and the end that is awaited in the next text."""
    left, at, awaited = "", 0, ""
    for start, end, goes_on in _list_wrappers(text, room):
        left += text[at:start]
        at, awaited = end, goes_on
    return _keep_inside(left.lstrip() + text[at:] if at else text), awaited


def _list_wrappers(text: str, room: Room) -> Iterator[tuple[int, int, str]]:
    """Yield where each wrapper begins and ends, and the end that is awaited in the next text."""
    at, is_opening = 0, True
    while (found := _find_wrapper(text, at, room, is_opening=is_opening)) is not None:
        is_opening = is_opening and not text[at : found.start()].strip()
        wrapper = _BY_START[found[1]]
        end_at = text.find(wrapper.end, found.end()) if wrapper.end else -1
        if end_at < 0:
            goes_on = wrapper.treatment is Treatment.DROP_FILES
            yield found.start(), len(text), wrapper.end if goes_on else ""
            return
        at = end_at + len(wrapper.end)
        yield found.start(), at, ""


def _find_wrapper(text: str, at: int, room: Room, *, is_opening: bool) -> re.Match[str] | None:
    """Find the next wrapper that is removed; `is_opening`: nothing else stands before it."""
    end = min(len(text), at + room.chars)
    found = _OPENS.match(text, at, end) if is_opening else None
    found = found or _ANYWHERE.search(text, at, end)
    room.chars -= (end if found is None else found.end()) - at
    return found


def _keep_inside(text: str) -> str:
    """Return what is inside a tag that has the user's words; else the text itself."""
    if (found := _KEEPS.match(text)) is None:
        return text
    wrapper = _BY_START[found[1]]
    at = text.find(wrapper.start, found.start(1), found.end() + _MAX_LEAD_CHARS)
    end_at = text.find(wrapper.end, at)
    return text if at < 0 or end_at < 0 else text[at + len(wrapper.start) : end_at].strip()


def _may_be_wrapped(text: str) -> bool:
    """Tell whether a text may have a wrapper; most texts have none of these signs."""
    return (
        "<" in text
        or "# *" in text
        or "--- C" in text
        or "Respond with " in text
        or text.startswith(_SIGNS)
    )


def _is_unknown_wrapper(text: str) -> bool:
    """Tell whether a text is wholly in one tag whose name has ``_`` or ``-``.

    Agents get new wrappers before this table does, and people's own tags have plain names.
    """
    found = _UNKNOWN.match(text)
    return found is not None and text.rstrip().endswith(f"</{found[1]}>")


def _list_starts(*treatments: Treatment) -> list[str]:
    return [one.lead or one.start for one in WRAPPERS if one.treatment in treatments]


def _match_any(starts: Iterable[str]) -> str:
    return f"({'|'.join(map(re.escape, starts))})"


_OPENINGS: Final = tuple(_list_starts(_OPENING))
_FRAMES: Final = tuple(
    one.start for one in WRAPPERS if one.treatment is _INSIDE and "<" not in one.start
)
_SIGNS: Final = (*_OPENINGS, *_FRAMES, *(f"\n{start}" for start in _FRAMES))
_BY_START: Final = {one.lead or one.start: one for one in WRAPPERS}
_REMOVED: Final = _list_starts(Treatment.DROP, Treatment.DROP_FILES)
_TAGS: Final = [start.removeprefix("<") for start in _REMOVED if start.startswith("<")]
_LINES: Final = [start for start in _REMOVED if not start.startswith("<")]
# Only what has the form of a tag is compared with each of them: a text may be nothing but "<".
_ANYWHERE: Final = re.compile(
    rf"(<(?=[a-z][a-z_-]{{3,31}}+>){_match_any(_TAGS)}|{_match_any(_LINES)})"
)
_OPENS: Final = re.compile(rf"\s*+{_match_any(_OPENINGS)}")
_KEEPS: Final = re.compile(rf"\s*+{_match_any(_list_starts(_INSIDE))}")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)+)"\s*', re.DOTALL)
_UNKNOWN: Final = re.compile(r"\s*+<([A-Za-z][A-Za-z0-9]*[_-][A-Za-z0-9_-]*)(?:\s[^>]*)?>")
