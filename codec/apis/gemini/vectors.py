"""Gemini's embeddings: contents in, vectors out, whole (``docs/contract/spans.md#embeddings``).

``:embedContent`` takes one ``content`` and answers one ``embedding``; ``:batchEmbedContents`` takes
``requests``, each with a content, and answers ``embeddings``. Only newer models report how many
tokens that took. All this is from the Gemini API reference, "Embeddings"; no recording has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from codec.apis.gemini.asked import GeminiRequest
from codec.apis.gemini.names import both, member_of, some_of
from codec.apis.gemini.said import read_usage
from codec.bodies import decode_response_object
from codec.error_objects import find_error
from codec.members import list_of, object_of, text_of
from codec.said import Said, Vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.text.jsontext import JsonObject

__all__ = ("EmbedAnswer", "EmbedRequest", "read_vectors")


class EmbedRequest(GeminiRequest, frozen=True, gc=False):
    """A request to embed texts."""

    content_members: ClassVar[frozenset[str]] = both("content", "requests", "title")

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for embeddings; ``None`` if it is one."""
        contents = self._contents
        are_some = bool(contents) and all(isinstance(one, str | dict) for one in contents)
        return None if are_some else "there is nothing to embed"

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters; if there are several requests, those of the first."""
        first = next((object_of(one) for one in list_of(self.body.get("requests"))), self.body)
        config = member_of(first, "embedContentConfig") or first
        return {"dimensions": member_of(object_of(config), "outputDimensionality")}

    def read_texts(self) -> Sequence[Any]:
        """Read the text of each content, with the texts of all its parts joined.

        A content without text, such as a picture, keeps its place.
        """
        return [_text_of(content) for content in self._contents]

    @property
    def _contents(self) -> Sequence[Any]:
        if (one := self.body.get("content")) is not None:
            return [one]
        return [object_of(request).get("content") for request in list_of(self.body.get("requests"))]


def _text_of(content: Any) -> str | None:
    parts = some_of(object_of(content).get("parts"))
    texts = [text for part in parts if (text := text_of(object_of(part).get("text")))]
    return "".join(texts) or None


class EmbedAnswer(Said, frozen=True, kw_only=True):
    """The vectors of an answer."""

    @property
    def vectors(self) -> Sequence[Vector]:
        """The embeddings in their order."""
        return [
            Vector(index=index, value=embedding.get("values"))
            for index, embedding in enumerate(_embeddings(self.body))
        ]


def _embeddings(body: Mapping[str, Any]) -> Sequence[JsonObject]:
    found = list_of(body.get("embeddings")) or some_of(body.get("embedding"))
    return [object_of(one) for one in found]


def read_vectors(body: bytes) -> EmbedAnswer:
    """Read the body of an answer, or of an error.

    Raises:
        MalformedResponse: it is not a JSON object.
    """
    value = decode_response_object(body)
    error = find_error(value)
    is_odd = error is None and not _embeddings(value)
    usage = read_usage(member_of(value, "usageMetadata"))
    return EmbedAnswer(
        usage=usage,
        error=error,
        anomalies=(*(("foreign_chunk",) if is_odd else ()), *(usage.anomalies if usage else ())),
        body=value,
    )
