"""The protocol of an API: all that the rest of the product asks of one, and its shared parts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from codec.bodies import decode_request_object
from codec.said import Said

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.apis.player import Player
    from codec.asked import Asked
    from codec.growing_text import GrowingText
    from codec.text.base64_text import TakenPictures
    from codec.text.jsontext import JsonObject
    from codec.usage_option import UsageOption

__all__ = ("Api", "Content", "NoStream", "OpenStream", "SpanKind", "Stream", "load_player")


class Content(StrEnum):
    """The content of an API's requests and answers."""

    MESSAGES = "messages"
    """Messages with roles, tools and tool calls."""
    TEXTS = "texts"
    """Prompts and their continuations."""
    VECTORS = "vectors"
    """Texts, and a vector for each."""
    RANKING = "ranking"
    """A query and documents, and the order of these."""
    BODIES = "bodies"
    """Bodies of any form, shown whole as they came."""


class SpanKind(StrEnum):
    """Values of ``openinference.span.kind`` (``docs/contract/spans.md#span-kind``)."""

    LLM = "LLM"
    EMBEDDING = "EMBEDDING"
    CHAIN = "CHAIN"
    RERANKER = "RERANKER"
    GUARDRAIL = "GUARDRAIL"


class Stream(Protocol):
    """An answer that is being put together from its event stream."""

    @property
    def chunk_count(self) -> int:
        """The number of chunks so far: events that are a piece of the answer."""

    @property
    def has_content(self) -> bool:
        """Whether text, reasoning, a refusal, a tool call or a part of a picture was seen."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing so far. More may come, and may then lack its end."""

    def feed(self, data: bytes) -> None:
        """Feed one read of the body, its content coding undone, cut anywhere. Never raises."""

    def look(self) -> Sequence[GrowingText]:
        """Look at the texts that have come so far, as they are; nothing is changed."""

    def finish(self) -> Said:
        """The answer, after the last read."""


class OpenSoundingStream(Protocol):
    """Begins to put a streamed answer together whose sound is kept."""

    def __call__(self, *, asked: Asked, lend: Callable[[int], bool]) -> Stream:
        """Begin a stream, as :class:`OpenStream` does; `asked` may say how the answer sounds."""


class OpenPicturedStream(Protocol):
    """Begins to put a streamed answer together that may have pictures."""

    def __call__(
        self, *, choice_count: int, lend: Callable[[int], bool], pictures: TakenPictures
    ) -> Stream:
        """Begin a stream, as :class:`OpenStream` does; `pictures` gets those that are taken out."""


class OpenStream(Protocol):
    """Begins to put a streamed answer together."""

    def __call__(
        self, *, choice_count: int, hides_usage: bool, lend: Callable[[int], bool]
    ) -> Stream:
        """Begin a stream.

        Args:
            choice_count: how many choices were asked for.
            hides_usage: the client does not receive events that only report usage.
            lend: whether that many more bytes may be reserved beside all others
                (:mod:`codec.budget`).
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """An API that is observed.

    Attributes:
        name: of the API; frames, spans and metrics carry it.
        path_ends: how the paths of its requests end, without trailing slashes. Azure, Z.ai,
            OpenRouter and others have a long path before the end. Clients use the first end by
            default.
        owns: decides whether a path with such an end is the API's, if the end alone does not.
        sockets_only: its calls come only in the messages of WebSockets (:mod:`codec.apis.session`).
        operation: ``gen_ai.operation.name`` (``docs/contract/spans.md#opentelemetry``), ``None``
            if it has none.
        span_name: the name of its spans, by OpenInference.
        span_kind: the kind of its spans, by OpenInference.
        noun: what a call of it is, for people, if no model speaks in it; else empty.
        system: ``llm.system``, the vendor whose API it is; ``None`` for spans without one.
        api_type: ``openai.api.type``; ``None`` if OpenTelemetry has no value for it.
        content: what its requests and answers are made of.
        usage_option: the option with which a request asks a stream for its usage; ``None`` if
            streams report it anyway: then no request is changed.
        shows_past_reasoning: whether ``llm.input_messages`` shows reasoning of the history, as
            OpenInference's instrumentor of the API does.
        calls_are_parts: whether calls of tools are also parts of a message, each in its place.
        gives_reason: its answers say why they ended.
        takes_forms: its requests may be forms, and their files are not observed
            (:mod:`codec.text.multipart`).
        asked: the kind of its requests.
        peel_request: gives the members of the request that a body holds, if requests come in an
            envelope (:mod:`codec.apis.envelope`); else ``None``.
        quoted_members: members of an answer in which it repeats its request.
        quoted_lists: members of an answer that are lists whose items repeat parts of the request;
            an empty name means that the answer itself is such a list.
        quoted_item_members: the members of these items that repeat it.
        tool_lists: members of a request or an answer that are lists. Their items may have a member
            ``tools``, with what a server offers or what a search found.
        streams_json: whether a streamed answer is an array or lines of JSON instead of an event
            stream. Then the request says whether the answer is streamed, or a content type of JSON
            lines does.
        open_stream: begins to put a streamed answer together.
        read_said: reads a plain answer's body.
        open_sounding: as `open_stream`, for an answer whose sound is kept; ``None`` if none is.
        open_pictured: as `open_stream`, for an answer whose pictures are kept; ``None`` if none is
            taken out of the API's answers.
        read_pictured: as `read_said`, likewise.
        shorten: shortens a piece of a large plain answer; the piece begins and ends anywhere.
        read_sound: makes an answer of the content type and, if known, the number of bytes that are
            not kept; ``None`` if the API has no such answers.
        open_player: gets the player of its answers (:func:`load_player`); ``None`` if it has none.
    """

    name: str
    path_ends: tuple[str, ...]
    owns: Callable[[str], bool] | None = None
    sockets_only: bool = False
    operation: str | None
    span_name: str
    span_kind: SpanKind = SpanKind.LLM
    noun: str = ""
    system: str | None = "openai"
    api_type: str | None = None
    content: Content = Content.MESSAGES
    usage_option: UsageOption | None = None
    shows_past_reasoning: bool = False
    calls_are_parts: bool = False
    quoted_members: frozenset[str] = frozenset()
    quoted_lists: frozenset[str] = frozenset()
    quoted_item_members: frozenset[str] = frozenset()
    tool_lists: frozenset[str] = frozenset()
    streams_json: bool = False
    gives_reason: bool = True
    takes_forms: bool = False
    asked: type[Asked]
    peel_request: Callable[[JsonObject], JsonObject] | None = None
    open_stream: OpenStream
    read_said: Callable[[bytes], Said]
    open_sounding: OpenSoundingStream | None = None
    open_pictured: OpenPicturedStream | None = None
    read_pictured: Callable[[bytes, TakenPictures], Said] | None = None
    shorten: Callable[[bytes], bytes] | None = None
    read_sound: Callable[[str, int | None], Said] | None = None
    open_player: Callable[[], Player] | None = None

    def decode_asked(self, body: bytes, path: str = "") -> Asked:
        """Decode a request body; the path is its target's, without the query.

        Raises:
            MalformedRequest: it is not a JSON object in UTF-8.
        """
        return self.ask(decode_request_object(body), path)

    def ask(self, body: JsonObject, path: str) -> Asked:
        """Make a request of its body; slashes at the end of the path are ignored."""
        if self.peel_request is not None:
            body = self.peel_request(body)
        return self.asked(body, path.rstrip("/"))


def load_player(module: str, name: str) -> Player:
    """Import a player only when it is needed: a proxy plays no answers, and starts without it."""
    player: Player = getattr(import_module(module), name)
    return player


class NoStream:
    """The stream of an API without streams: whatever an upstream streams here is not an answer.

    It reads nothing, and takes the arguments of :class:`OpenStream`.
    """

    chunk_count = 0
    has_content = False
    is_complete = False

    def __init__(self, **_: object) -> None:
        pass

    def feed(self, data: bytes) -> None:
        """Pass over a read."""

    def look(self) -> Sequence[GrowingText]:
        """Return no texts."""
        return ()

    def finish(self) -> Said:
        """Return an answer that says nothing."""
        return Said(anomalies=("foreign_chunk",))
