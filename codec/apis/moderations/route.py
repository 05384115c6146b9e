"""The route of moderations, and what their requests and answers say.

See ``docs/contract/apis.md#moderations``. A moderation judges content and makes none: whatever it
finds, the call succeeded. Its span has no count of tokens and no model with a price, because
backends would add them to the calls that make content.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from codec.apis.api import Api, Content, NoStream, SpanKind, load_player
from codec.asked import Asked
from codec.bodies import decode_response_object
from codec.error_objects import find_error
from codec.members import object_of, text_of
from codec.said import Ending, Said
from codec.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.text.jsontext import JsonObject

__all__ = ("MODERATIONS",)


class ModerationRequest(Asked, frozen=True, gc=False):
    """A request to judge a text, several, or parts with texts and images."""

    content_members: ClassVar[frozenset[str]] = frozenset({"input"})

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for a moderation; ``None`` if it is one."""
        is_some = isinstance(self.body.get("input"), str | list | dict)
        return None if is_some else "there is nothing to judge"


class ModerationAnswer(Said, frozen=True, kw_only=True):
    """A judgement for each input."""

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on all inputs together.

        Mistral reports the categories without a verdict on the whole; then there is none.
        """
        results = _list_results(self.body)
        if results is None:
            return None
        said = [flagged for one in results if isinstance(flagged := one.get("flagged"), bool)]
        found = [
            name
            for one in results
            for name, is_found in object_of(one.get("categories")).items()
            if is_found is True
        ]
        return Verdict(flagged=any(said) if said else None, categories=tuple(dict.fromkeys(found)))

    def ending(self, *, streamed: bool) -> Ending:  # noqa: ARG002 - there is no stream of them
        """Tell how far the answer came: it is complete with its results."""
        return Ending.STOPPED if _list_results(self.body) is None else Ending.COMPLETE


def _list_results(body: Mapping[str, Any]) -> Sequence[JsonObject] | None:
    """The results; ``None`` if the answer has none."""
    results = body.get("results")
    if not isinstance(results, list):
        return None
    return [one for one in results if isinstance(one, dict)]


def _read_moderation(body: bytes) -> ModerationAnswer:
    """Read the body of an answer, or of an error."""
    value = decode_response_object(body)
    error = find_error(value)
    is_odd = error is None and _list_results(value) is None
    return ModerationAnswer(
        id=text_of(value.get("id")),
        model=text_of(value.get("model")),
        error=error,
        anomalies=("foreign_chunk",) if is_odd else (),
        body=value,
    )


MODERATIONS = Api(
    name="moderations",
    path_ends=("/moderations",),
    operation="apply_guardrail",
    span_name="ModerationCreateResponse",
    system=None,
    span_kind=SpanKind.GUARDRAIL,
    noun="moderation",
    content=Content.BODIES,
    asked=ModerationRequest,
    open_stream=NoStream,
    read_said=_read_moderation,
    open_player=partial(load_player, "codec.apis.moderations.player", "PLAYER"),
)
"""Moderations. Their spans have the name of the answer in OpenAI's SDK, which OpenInference uses,
too."""
