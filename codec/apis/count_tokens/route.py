"""The route of token counts, and what their requests and answers say.

See ``docs/contract/apis.md#token-counts``.

A count is not a call of a model. Its span has no count of tokens, because backends would add that
to the tokens that were used, and bill it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from codec.apis.api import Api, Content, NoStream, SpanKind, load_player
from codec.apis.claude_code import find_session, read_labels
from codec.asked import Asked
from codec.bodies import decode_response_object
from codec.error_objects import find_error
from codec.said import Ending, Said
from codec.text.integers import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ("COUNT_TOKENS",)


class CountRequest(Asked, frozen=True, gc=False):
    """A request to count the tokens of a request for a message."""

    content_members: ClassVar[frozenset[str]] = frozenset({"messages", "system", "tools"})
    tool_members: ClassVar[frozenset[str]] = frozenset(
        {"tools", "tool_choice", "mcp_servers", "context_management"}
    )
    server_members: ClassVar[frozenset[str]] = frozenset({"mcp_servers"})

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for a count; ``None`` if it is one."""
        return None if isinstance(self.body.get("messages"), list) else "messages is not a list"

    @property
    def session_id(self) -> str | None:
        """The session of Claude Code."""
        return find_session(self.body)

    @property
    def labels(self) -> Mapping[str, Any]:
        """The metadata, without an id that names a session."""
        return read_labels(self.body)


class CountAnswer(Said, frozen=True, kw_only=True):
    """A count."""

    @property
    def counted_tokens(self) -> int | None:
        """The count."""
        return count_of(self.body.get("input_tokens"))

    def ending(self, *, streamed: bool) -> Ending:  # noqa: ARG002 - there is no stream of counts
        """Tell how far the answer came: it is complete with its number."""
        return Ending.STOPPED if self.counted_tokens is None else Ending.COMPLETE


def _read_count(body: bytes) -> CountAnswer:
    """Read the body of an answer, or of an error."""
    value = decode_response_object(body)
    error = find_error(value)
    is_odd = error is None and count_of(value.get("input_tokens")) is None
    anomalies: Sequence[str] = ("foreign_chunk",) if is_odd else ()
    return CountAnswer(error=error, anomalies=tuple(anomalies), body=value)


COUNT_TOKENS = Api(
    name="count_tokens",
    path_ends=("/messages/count_tokens", "/models/count-tokens:rawPredict"),
    operation=None,
    span_name="CountTokens",
    system=None,
    span_kind=SpanKind.CHAIN,
    noun="token count",
    content=Content.BODIES,
    asked=CountRequest,
    open_stream=NoStream,
    read_said=_read_count,
    open_player=partial(load_player, "codec.apis.count_tokens.player", "PLAYER"),
)
"""Token counts. OpenInference has no span kind for them; a chain is neither priced nor counted."""
