"""Embeddings: texts in, vectors out, never streamed (``docs/contract/spans.md#embeddings``).

``/api/embed`` takes an ``input`` and answers ``embeddings``; the older ``/api/embeddings`` takes a
``prompt`` and answers one ``embedding``. Gateways serve OpenAI's embeddings below ``/api``, too, so
OpenAI's form is read as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from codec.apis.ollama.asked import OllamaAsked
from codec.apis.ollama.said import read_usage
from codec.bodies import decode_response_object
from codec.error_objects import find_error
from codec.members import list_of, object_of
from codec.said import Said, Vector
from codec.text.integers import places_of
from codec.usage import decode_usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


__all__ = ("EmbedAsked", "EmbedSaid", "read_embedded")

_ANSWERS = ("embeddings", "embedding", "data")


class EmbedAsked(OllamaAsked, frozen=True, gc=False):
    """A request to embed texts."""

    content_members: ClassVar[frozenset[str]] = frozenset({"input", "prompt"})

    @property
    def stream(self) -> bool:
        """Whether a stream was asked for: never, embeddings are not streamed."""
        return False

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for embeddings; ``None`` if it is one."""
        if not isinstance(self._texts, str | list):
            return "there is nothing to embed"
        return super().fault

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters; in OpenAI's form they stand beside the texts."""
        return {"encoding_format": self.body.get("encoding_format"), **super().options}

    @property
    def _texts(self) -> Any:
        return self.body.get("input", self.body.get("prompt"))

    def read_texts(self) -> Sequence[Any]:
        """Read the texts: in OpenAI's form a list of numbers is one input, of tokens."""
        texts = self._texts
        if isinstance(texts, list) and not (texts and isinstance(texts[0], int)):
            return texts
        return () if texts is None else (texts,)


class EmbedSaid(Said, frozen=True, kw_only=True):
    """The vectors of an answer."""

    @property
    def vectors(self) -> Sequence[Vector]:
        """The embeddings, whichever form they came in."""
        body = self.body
        if isinstance(several := body.get("embeddings"), list):
            return [Vector(index=index, value=value) for index, value in enumerate(several)]
        if "embedding" in body:
            return [Vector(index=0, value=body["embedding"])]
        items = [object_of(item) for item in list_of(body.get("data"))]
        return [
            Vector(index=place, value=item["embedding"])
            for place, item in zip(places_of(items), items, strict=True)
            if "embedding" in item
        ]


def read_embedded(body: bytes) -> EmbedSaid:
    """Read the body of an answer, one that reports an error included.

    Raises:
        MalformedResponse: it is not a JSON object.
    """
    value = decode_response_object(body)
    error = find_error(value)
    is_odd = error is None and not any(isinstance(value.get(one), list) for one in _ANSWERS)
    model = value.get("model")
    usage = decode_usage(value.get("usage")) or read_usage(value)
    return EmbedSaid(
        model=model if isinstance(model, str) and model else None,
        usage=usage,
        error=error,
        anomalies=(*(("foreign_chunk",) if is_odd else ()), *(usage.anomalies if usage else ())),
        body=value,
    )
