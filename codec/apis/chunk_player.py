"""The player of chat completions and of legacy completions, which stream the same chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codec.apis.faults import find_chat_fault, find_completion_fault
from codec.dialects import StreamPlayer, play_body, play_error
from codec.generator import ChunkGenerator, Identity, UsagePolicy, find_usage_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codec.apis.player import Player, Script
    from codec.asked import Asked
    from codec.dialects import Dialect
    from codec.text.jsontext import JsonObject


__all__ = ("CHAT_PLAYER", "COMPLETION_PLAYER")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChunkPlayer:
    """Plays chat completions or legacy completions.

    Attributes:
        find_fault: finds the error body for the first thing wrong with a request.
        id_prefix: what an answer's id begins with.
        is_completion: the chunks are those of legacy completions.
    """

    find_fault: Callable[[JsonObject], JsonObject | None]
    id_prefix: str
    is_completion: bool = False

    def write_error(self, error: JsonObject, dialect: Dialect) -> bytes:
        """Write the body of an error, in a dialect."""
        return play_error(dialect, error)

    def play(self, asked: Asked, script: Script, dialect: Dialect) -> _Performance:
        """Begin an answer, in a dialect."""
        generator = ChunkGenerator(
            Identity(
                id=f"{self.id_prefix}-{script.answer_id}",
                created=script.created,
                model=asked.model or "",
                members={"service_tier": "default", "system_fingerprint": "fp_demo"},
            ),
            choice_count=len(script.answers),
            prompt_tokens=script.prompt_tokens,
            cached_tokens=script.cached_tokens,
            usage=UsagePolicy.CONTINUOUS,
            is_completion=self.is_completion,
            custom_tools={tool.name for tool in asked.read_tools() if tool.type == "custom"},
        )
        return _Performance(asked, script, dialect, generator)


CHAT_PLAYER: Final[Player] = _ChunkPlayer(find_fault=find_chat_fault, id_prefix="chatcmpl")
COMPLETION_PLAYER: Final[Player] = _ChunkPlayer(
    find_fault=find_completion_fault, id_prefix="cmpl", is_completion=True
)


@dataclass(frozen=True, slots=True)
class _Performance:
    """Plays one answer in chunks."""

    asked: Asked
    script: Script
    dialect: Dialect
    generator: ChunkGenerator

    @property
    def content_type(self) -> str:
        """The content type of the stream."""
        return self.dialect.framing.content_type

    def stream(self) -> Iterator[Sequence[bytes]]:
        """The events of each chunk."""
        player = StreamPlayer(
            self.dialect, find_usage_policy(self.asked.body.get("stream_options"))
        )
        for chunk in self.generator.generate(self.script.answers):
            yield [*player.feed(chunk)]
        yield [*player.end()]

    def whole(self) -> bytes:
        """The body of the plain answer."""
        for _ in self.generator.generate(self.script.answers):
            pass
        return play_body(self.dialect, self.generator.completion())
