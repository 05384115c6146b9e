"""Asking for usage on a client's behalf: when, by which option of an API, and what comes of it."""

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
    """Every stream is asked for, whatever the client's options say."""
    IF_ABSENT = "if-absent"
    """Only where the client sent no such option in any form."""
    NEVER = "never"
    """The request is not touched."""


class Rewrite(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The body for the upstream, and what was done to it.

    Attributes:
        body: the bytes to send; the client's own object where nothing was changed.
        more: what follows ``body``; of a body in blocks, and of a large one that was changed, it
            is everything.
        asked: the upstream is asked for usage by us alone: its usage event is not for the client.
        rewrites: the names of what was changed.
        note: why a body was left alone that the policy would have changed, one word.
    """

    body: bytes
    more: tuple[bytes | memoryview, ...] = ()
    asked: bool = False
    rewrites: tuple[str, ...] = ()
    note: str | None = None

    @property
    def size_bytes(self) -> int:
        """The size of what is to be sent."""
        return sum(map(len, self.more), len(self.body))


def leave_body(body: bytes | Blocks, *, note: str | None = None) -> Rewrite:
    """Leave a body as it is; the note as in :class:`Rewrite`."""
    if isinstance(body, bytes):
        return Rewrite(body=body, note=note)
    return Rewrite(body=b"", more=body.blocks, note=note)


class EventFilter(Protocol):
    """Removes from one answer's event stream what came only because we asked for it."""

    @property
    def held(self) -> bytes:
        """What waits, until more of it tells whether it is removed."""

    def feed(self, data: bytes) -> bytes:
        """Feed the bytes of one read; returns those to relay now, which may be none."""

    def let_go(self) -> bytes:
        """Return comments that wait, once: they may be all that keeps a connection alive."""

    def finish(self) -> bytes:
        """Return what still waits, at the end of the body or where it broke off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageOption:
    """The option by which a request asks that a stream tells its usage.

    Attributes:
        members: names of the members of a request whose places are needed to rewrite it, and of
            its model.
        rewrite: makes the upstream's body from all of the client's bytes, by what a scan for these
            members found.
        is_blamed: tells whether the body of a rejection (status 400 or 422) names the option.
        open_filter: begins to filter an answer.
    """

    members: frozenset[str]
    rewrite: Callable[[bytes | Blocks, BodyScan, UsagePolicy], Rewrite]
    is_blamed: Callable[[bytes], bool]
    open_filter: Callable[[], EventFilter]
