"""The framing of an answer on the client's hop, and what its head says of it."""

from __future__ import annotations

import functools
from typing import NamedTuple

from proxy.headers import MAX_SHAPES

_NO_CODINGS = frozenset({b"", b"identity"})
"""Named by some as transfer codings, though they are none (RFC 9112 section 7)."""


class Framing(NamedTuple):
    """The framing of an answer, and what its head says of it.

    Attributes:
        last_lines: what follows the fields that are relayed.
        chunked: its body goes in chunks of ours.
        keeps_chunked: the upstream's ``Transfer-Encoding`` stays.
        must_reset: only the end of the connection tells where the body ends.
        keeps_alive: the connection serves another request.
    """

    last_lines: bytes
    chunked: bool
    keeps_chunked: bool
    must_reset: bool
    keeps_alive: bool


@functools.lru_cache(MAX_SHAPES)
def frame_answer(
    encoding: bytes | None,
    counted: bool,  # noqa: FBT001 - a cache's keyword arguments cost, here and below
    has_body: bool,  # noqa: FBT001
    knows_chunks: bool,  # noqa: FBT001
    keeps_alive: bool,  # noqa: FBT001
) -> Framing:
    """Frame an answer by the upstream's ``Transfer-Encoding`` and what else decides it.

    It is `counted` where the upstream's ``Content-Length`` holds, and `keeps_alive` is false where
    something other than its framing ends the connection.
    """
    codings = [coding.strip() for coding in (encoding or b"").lower().split(b",")]
    chunked = has_body and not counted and knows_chunks
    must_reset = has_body and not counted and not chunked
    # In answer to HEAD, and in a 304, it says how the body would be framed.
    would_be_chunked = not has_body and knows_chunks
    last_lines = b""
    # Chunks are what frames it where that is the last coding (RFC 9112 section 6.1).
    if chunked and codings[-1] != b"chunked":
        last_lines += b"Transfer-Encoding: chunked\r\n"
    if must_reset or not keeps_alive:
        last_lines += b"Connection: close\r\n"
    elif not knows_chunks:
        last_lines += b"Connection: keep-alive\r\n"
    return Framing(
        last_lines=last_lines + b"\r\n",
        chunked=chunked,
        keeps_chunked=not _NO_CODINGS.issuperset(codings) and (chunked or would_be_chunked),
        must_reset=must_reset,
        keeps_alive=keeps_alive and not must_reset,
    )
