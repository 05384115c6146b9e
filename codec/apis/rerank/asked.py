"""Requests for a ranking: one form in the words of several providers.

Cohere, Jina, vLLM, llama.cpp, Together and OpenRouter have ``documents`` and ``top_n``, Voyage has
``top_k``, TEI has ``texts``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from codec.call import Asked, ReadList
from codec.members import object_of
from codec.text.integers import count_of
from codec.text.jsontext import compact_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ("RerankRequest", "read_content")


class RerankRequest(Asked, frozen=True, gc=False):
    """A request to rank documents."""

    content_members: ClassVar[frozenset[str]] = frozenset({"query", "documents", "texts"})

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for a ranking; ``None`` if it is one."""
        if not isinstance(self.body.get("query"), str | dict):
            return "query is neither text nor an object"
        if self._documents is None:
            return "there is nothing to rank"
        return None

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters; Voyage's ``top_k`` is not the one that chats have, which samples."""
        return {name: value for name, value in self.body.items() if name != "top_k"}

    @property
    def rank_limit(self) -> int | None:
        """The most documents that the ranking is to have: ``top_n``, else ``top_k``."""
        limit = count_of(self.body.get("top_n"))
        return count_of(self.body.get("top_k")) if limit is None else limit

    def read_query(self) -> str | None:
        """Read the query: a text, or an object that models of images accept."""
        return read_content(self.body.get("query"))

    def read_documents(self) -> Sequence[str | None]:
        """Read the documents."""
        return ReadList(self._documents or (), read_content)

    @property
    def _documents(self) -> Sequence[Any] | None:
        """The documents as sent.

        vLLM takes a single one, too, and an object whose ``content`` lists parts.
        """
        documents = self.body.get("documents")
        if isinstance(documents, str):
            return (documents,)
        if isinstance(documents, dict):
            documents = documents.get("content")
        for values in (documents, self.body.get("texts")):
            if isinstance(values, list):
                return values
        return None


def read_content(value: Any) -> str | None:
    """Read a document: a string, the ``text`` of an object, or the whole object as JSON."""
    if isinstance(value, str):
        return value
    text = object_of(value).get("text")
    if isinstance(text, str):
        return text
    return compact_text(value) if value else None
