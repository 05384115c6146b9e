"""Asks for usage on a client's behalf: the policy, an API's option, and the changed request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.text.blocks import Blocks
    from codec.text.scan import BodyScan

__all__ = ("EventFilter", "Rewrite", "UsageOption", "UsagePolicy", "leave_body")


class UsagePolicy(StrEnum):
    """When spantap asks the upstream for usage (``docs/contract/promises.md#usage``)."""

    ALWAYS = "always"
    """For every stream, whatever the client's options say."""
    IF_ABSENT = "if-absent"
    """Only if the client sent no such option in any form."""
    NEVER = "never"
    """Never; the request is not changed."""


class Rewrite(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The body for the upstream, and what was done to it.

    Attributes:
        body: the bytes to send; the client's object if nothing was changed.
        more: the bytes that follow ``body``; all bytes of a body in blocks, or of a large body that
            was changed.
        asked: only we asked the upstream for usage, so its usage event is not for the client.
        rewrites: the names of the changes.
        note: one word that says why a body was left alone although the policy would change it.
    """

    body: bytes
    more: tuple[bytes | memoryview, ...] = ()
    asked: bool = False
    rewrites: tuple[str, ...] = ()
    note: str | None = None

    @property
    def size_bytes(self) -> int:
        """The size of all bytes to send."""
        return sum(map(len, self.more), len(self.body))


def leave_body(body: bytes | Blocks, *, note: str | None = None) -> Rewrite:
    """Leave a body as it is; the note is that of :class:`Rewrite`."""
    if isinstance(body, bytes):
        return Rewrite(body=body, note=note)
    return Rewrite(body=b"", more=body.blocks, note=note)


class EventFilter(Protocol):
    """Removes from an answer's event stream the events that came only because we asked for them."""

    @property
    def held(self) -> bytes:
        """The bytes that wait until more bytes show whether they are removed."""

    def feed(self, data: bytes) -> bytes:
        """Feed the bytes of one read and return those to relay now, perhaps none."""

    def let_go(self) -> bytes:
        """Return comments that wait, once: they may be all that keeps a connection alive."""

    def finish(self) -> bytes:
        """Return the bytes that still wait, after the body ended or broke off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageOption:
    """The option with which a request asks a stream for its usage.

    Attributes:
        members: the members of a request whose places are needed to rewrite it, and its model.
        rewrite: makes the upstream's body from all of the client's bytes and a scan for these
            members.
        is_blamed: decides whether the body of a rejection (status 400 or 422) names the option.
        open_filter: begins to filter an answer.
    """

    members: frozenset[str]
    rewrite: Callable[[bytes | Blocks, BodyScan, UsagePolicy], Rewrite]
    is_blamed: Callable[[bytes], bool]
    open_filter: Callable[[], EventFilter]
