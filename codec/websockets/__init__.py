"""One direction of a WebSocket connection: an observer's copy of its bytes, read into messages.

:func:`read_deflate` reads what the handshake agreed on, and a :class:`MessageParser` finds the
messages. wsproto parses the frames, because it gives a frame in pieces: no frame has to fit into
memory. :mod:`codec.websockets.deflate` inflates messages.

Doors: ``Deflate``, ``Message``, ``MessageKind``, ``MessageParser``, ``read_deflate``.
"""

from __future__ import annotations

from codec.websockets.deflate import Deflate, read_deflate
from codec.websockets.parser import Message, MessageKind, MessageParser

__all__ = ("Deflate", "Message", "MessageKind", "MessageParser", "read_deflate")
