"""Gemini's counts of tokens (``docs/contract/apis.md#token-counts``)."""

from __future__ import annotations

from typing import ClassVar

from codec.apis.gemini.asked import ContentRequest, GeminiRequest
from codec.apis.gemini.names import both, member_of
from codec.bodies import decode_response_object
from codec.error_objects import find_error
from codec.said import Ending, Said
from codec.text.integers import count_of

__all__ = ("CountAnswer", "CountRequest", "read_count")


class CountRequest(GeminiRequest, frozen=True, gc=False):
    """A request to count the tokens of contents, or of a whole request for content."""

    content_members: ClassVar[frozenset[str]] = ContentRequest.content_members | both(
        "generateContentRequest", "instances"
    )
    tool_members: ClassVar[frozenset[str]] = ContentRequest.tool_members
    function_members: ClassVar[frozenset[str]] = ContentRequest.function_members

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for a count; ``None`` if it is one."""
        names = ("contents", "generateContentRequest", "instances")
        counted = any(isinstance(member_of(self.body, name), list | dict) for name in names)
        return None if counted else "there is nothing to count"


class CountAnswer(Said, frozen=True, kw_only=True):
    """A count."""

    @property
    def counted_tokens(self) -> int | None:
        """The count."""
        return count_of(member_of(self.body, "totalTokens"))

    def ending(self, *, streamed: bool) -> Ending:  # noqa: ARG002 - there is no stream of counts
        """Tell how far the answer came: it is complete with its number."""
        return Ending.STOPPED if self.counted_tokens is None else Ending.COMPLETE


def read_count(body: bytes) -> CountAnswer:
    """Read the body of an answer, or of an error.

    Raises:
        MalformedResponse: it is not a JSON object.
    """
    answer = CountAnswer(body=(value := decode_response_object(body)), error=find_error(value))
    is_odd = answer.error is None and answer.counted_tokens is None
    return answer if not is_odd else CountAnswer(body=value, anomalies=("foreign_chunk",))
