"""The link of a command and the proxy that it uses: how one finds the other, and what they say.

A launch is a command that ``spantap run`` started. It holds a connection to the supervisor's door,
a Unix socket in the folder of :mod:`proxy.processes.scratch`; the end of the connection is the end
of the launch, however it came.

Rules:

1. Beside the store lies ``<store>.door``: the path of the socket, written once the store is ours,
   and removed when we go. After a kill it leads nowhere.
2. A door is entered only where both are our own user's: whoever answers there is sent all calls of
   the command, keys included.
3. Messages are lines of JSON. First the launch says which base URLs it wants paths for; the answer
   is where the proxy is. When the launch has closed its side, it is told whether the proxy stays
   for others, and if not, when all calls are stored; then the connection ends with the proxy.
4. Who asks for the open calls (:mod:`proxy.processes.open_calls`) is answered, and is no launch.
5. Another command gives orders for the store instead (:mod:`proxy.processes.store_orders`), and has
   an answer to each before the next. A proxy that lasts for its launches stays for it, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from proxy.processes.open_calls import AskOpen, OpenCalls
from proxy.processes.store_orders import CompactStore, DeleteSpans, Undone
from telemetry.store.rows import CompactStep, DeleteStep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_LINE_BYTES = 256 * 1024
"""Longest message: some dozens of URLs, none of them longer than a variable."""


class Join(msgspec.Struct, frozen=True, kw_only=True, tag="join"):
    """From a launch: which base URLs it wants a path for, by any name."""

    urls: dict[str, str] = {}


class Joined(msgspec.Struct, frozen=True, kw_only=True, tag="joined"):
    """To a launch: the proxy takes its calls.

    Attributes:
        pid: the supervisor's process.
        url: of the traffic port, without a final slash.
        paths: by the names of :class:`Join`, what to append to that URL.
        stays: the proxy ends by itself no sooner than somebody ends it.
        has_catalogue: the proxy reaches well-known providers beside its own upstreams.
        privacy: a digest of what it hides (:func:`digest_privacy`).
        messages_host: where calls of Anthropic's API go that name no upstream of their own; empty
            where the proxy does not say.
    """

    pid: int
    url: str
    paths: dict[str, str]
    stays: bool
    has_catalogue: bool
    privacy: str
    messages_host: str = ""


class Left(msgspec.Struct, frozen=True, kw_only=True, tag="left"):
    """To a launch that is over: whether the proxy stays for others."""

    stays: bool


class Stored(msgspec.Struct, frozen=True, tag="stored"):
    """To a launch that was the last: all calls are in the store."""


LaunchMessage = (
    Join
    | Joined
    | Left
    | Stored
    | AskOpen
    | OpenCalls
    | DeleteSpans
    | CompactStore
    | DeleteStep
    | CompactStep
    | Undone
)
"""What goes through the door, one way or the other."""

_decoder: msgspec.json.Decoder[LaunchMessage] = msgspec.json.Decoder(LaunchMessage)


def encode_line(message: LaunchMessage) -> bytes:
    """Encode a message, with its line end."""
    return msgspec.json.encode(message) + b"\n"


def decode_line(line: bytes) -> LaunchMessage | None:
    """Decode a message; ``None`` for the end of the connection, or what is none of ours."""
    try:
        return _decoder.decode(line)
    except ValueError:
        return None


class _Privacy(msgspec.Struct, frozen=True):
    content: bool
    redact: list[str]
    redact_patterns: dict[str, str]


def digest_privacy(handed: bytes, environ: Mapping[str, str]) -> str:
    """Digest what hides content from spans: settings (as JSON) and ``OPENINFERENCE_*``."""
    privacy = msgspec.json.decode(handed, type=_Privacy)
    switches = {name: text for name, text in environ.items() if name.startswith("OPENINFERENCE_")}
    told = (privacy.content, sorted(privacy.redact), privacy.redact_patterns, switches)
    return hashlib.sha256(msgspec.json.encode(told, order="sorted")).hexdigest()


@contextlib.contextmanager
def pointing_to_door(store: str, door: str) -> Iterator[None]:
    """Point to the door of the store's proxy as long as the block runs (rule 1).

    Raises:
        OSError: the file cannot be written.
    """
    path = _pointer(Path(store))
    unnamed = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor is not a path
        file.write(door)
    unnamed.rename(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def find_door(store: Path) -> str | None:
    """Find the socket of the proxy that has the store; ``None`` where there is none (rule 2)."""
    with contextlib.suppress(OSError, ValueError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(_pointer(store), flags)
        with open(descriptor, encoding="utf-8") as file:  # noqa: PTH123 - a descriptor is not a path
            door = file.read(4096)
            owners = {os.fstat(descriptor).st_uid}
        status = os.lstat(door)
        owners |= {status.st_uid, Path(door).parent.lstat().st_uid}
        if stat.S_ISSOCK(status.st_mode) and owners == {os.geteuid()}:
            return door
    return None


def _pointer(store: Path) -> Path:
    """Name the file; a link to the store and the store itself have one."""
    return Path(f"{store.resolve()}.door")
