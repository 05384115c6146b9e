"""Conversations: the place of each call in one, found when it has ended.

Rules (``page-and-conversations.md`` 1.2 and 1.5):

1. The place is found here, in the one process that sees all calls: the relay learns nothing new and
   waits for nothing.
2. The caller is told by a keyed digest of the credentials that it sent, which is in memory alone,
   as are all digests of content: the key is made with the object. After a restart conversations
   begin anew.
3. Numbers of conversations rise, also over restarts.
4. Calls are followed in the order in which they ended: a successor begins when its predecessor has
   answered.
"""

from __future__ import annotations

import os
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from codec.apis.api import Content
from codec.history_states import KEY_BYTES
from telemetry.conversations.link import Rule
from telemetry.conversations.linker import Linker
from telemetry.observing.exchange import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.observing.exchange import Exchange
    from telemetry.privacy.credentials import Credentials

__all__ = ("SCOPE_BYTES", "Conversations", "Place")

SCOPE_BYTES: Final = 8
"""Callers and upstreams that are told apart: of a million, two are taken for one by one chance in
40 million."""

MAX_KEPT_SCOPES: Final = 64
"""Heads whose scopes are kept: as many as the observer knows."""

_LEFT: Final = frozenset({Outcome.CLIENT_DISCONNECTED, Outcome.CANCELLED})


class Place(NamedTuple):
    """The place of a call.

    Attributes:
        conversation: its number.
        turn: which word of the user's it answers, from 1.
        rule: by which rule it goes on from an earlier call; ``None`` for the first one of a
            conversation.
    """

    conversation: int
    turn: int
    rule: str | None


class Conversations:
    """Finds the place of each call. Not safe for concurrent calls.

    Args:
        find_last: finds the greatest number of a conversation so far, when it is first needed.

    Attributes:
        ambiguous: calls that may go on from several others, and so begin a conversation.
    """

    def __init__(self, find_last: Callable[[], int] = lambda: 0) -> None:
        self._key = os.urandom(KEY_BYTES)
        self._linker = Linker(self._key)
        # The observer knows a head by its credentials: they are the very same for its next call.
        self._find_scope = lru_cache(maxsize=MAX_KEPT_SCOPES)(self._make_scope)
        self._find_last = find_last
        self._last: int | None = None
        self.ambiguous = 0

    def follow(self, exchange: Exchange) -> Place | None:
        """Find the place of an exchange that has ended; ``None`` for one without messages."""
        asked, said = exchange.request, exchange.response
        if asked is None or exchange.api.content is not Content.MESSAGES:
            return None
        failed = exchange.error_type is not None or exchange.outcome in _LEFT
        if self._last is None:
            self._last = self._find_last()
        self._last += 1
        scope = self._find_scope(exchange.credentials, exchange.upstream)
        link = self._linker.link(self._last, asked, said, scope=scope, failed=failed)
        self.ambiguous += link.is_ambiguous
        rule = None if link.rule is Rule.NEW else link.rule.value
        return Place(link.conversation, link.turn, rule)

    def _make_scope(self, credentials: Credentials, upstream: str) -> bytes:
        """Tell callers and upstreams apart (rule 2)."""
        told = credentials.digest(self._key) + upstream.encode("utf-8", "replace")
        return blake2b(told, digest_size=SCOPE_BYTES, key=self._key).digest()
