"""How a command finds the proxy that it uses, and what the two say to each other.

A launch is a command that ``spantap run`` started. It holds a connection to the supervisor's
control socket, a Unix socket in the folder of :mod:`proxy.processes.scratch`. The launch is over
when the connection ends, for whatever reason.

Rules:

1. The file ``<store>.door`` holds the path of the socket. It is written once we own the store, and
   removed when we end. After a kill its path leads nowhere.
2. A command connects only if file and socket belong to its own user: the proxy that answers gets
   all calls of the command, including their keys.
3. Messages are lines of JSON. First the launch names the base URLs for which it wants paths, and
   what may be intercepted; the answer says where the proxy is. When the launch has closed its side,
   it learns whether the proxy stays, and if not, when all calls are stored. Then the connection
   ends together with the proxy.
4. A question for the open calls (:mod:`proxy.processes.open_calls`) is answered, and does not count
   as a launch.
5. Other commands give orders for the store instead (:mod:`proxy.processes.store_orders`), and wait
   for each answer before the next order. A proxy that lasts as long as its launches stays for these
   commands too.
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

from proxy.interception.interception import Interception
from proxy.processes.intercept_orders import EndedPort, OpenedPort
from proxy.processes.open_calls import AskOpen, OpenCalls
from proxy.processes.store_orders import CompactStore, DeleteSpans, Undone
from telemetry.store.rows import CompactStep, DeleteStep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_LINE_BYTES = 256 * 1024
"""The longest message: some dozens of URLs, none longer than a variable can be."""


START_SECONDS = 20.0
"""How long a launch waits for a proxy that is just starting or ending; by default an end takes at
most ten seconds. A proxy that is started for a launch and is not ready by then ends."""


class Join(msgspec.Struct, frozen=True, kw_only=True, tag="join"):
    """From a launch: what it wants.

    Attributes:
        urls: the base URLs for which it wants paths, under any names.
        interception: what a port of interception may open for it; ``None`` if it wants none.
    """

    urls: dict[str, str] = {}
    interception: Interception | None = None


class Joined(msgspec.Struct, frozen=True, kw_only=True, tag="joined"):
    """To a launch: the proxy takes its calls.

    Attributes:
        pid: the supervisor's process.
        url: the URL of the traffic port, without a final slash.
        paths: by the names of :class:`Join`, what to append to that URL.
        stays: the proxy does not end by itself.
        has_catalogue: the proxy reaches well-known providers in addition to its own upstreams.
        privacy: a digest of the settings that hide content (:func:`digest_privacy`).
        messages_host: the host of calls of Anthropic's API that name no upstream; empty if the
            proxy does not say.
        intercept: the port that opens its TLS; ``None`` if it asked for none, or the proxy is of an
            earlier version.
        error: why it cannot have such a port.
    """

    pid: int
    url: str
    paths: dict[str, str]
    stays: bool
    has_catalogue: bool
    privacy: str
    messages_host: str = ""
    intercept: OpenedPort | None = None
    error: str = ""


class Left(msgspec.Struct, frozen=True, kw_only=True, tag="left"):
    """To a launch that is over: whether the proxy stays, for others or for what it has left behind.

    Attributes:
        intercept: what its interception did.
    """

    stays: bool
    intercept: EndedPort | None = None


class Stored(msgspec.Struct, frozen=True, tag="stored"):
    """To the last launch: all calls are in the store."""


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
"""All messages on this socket, in either direction."""

_decoder: msgspec.json.Decoder[LaunchMessage] = msgspec.json.Decoder(LaunchMessage)


def encode_line(message: LaunchMessage) -> bytes:
    """Encode a message, with its line end."""
    return msgspec.json.encode(message) + b"\n"


def decode_line(line: bytes) -> LaunchMessage | None:
    """Decode a message; ``None`` at the end of the connection, or for anything else."""
    try:
        return _decoder.decode(line)
    except ValueError:
        return None


class _Privacy(msgspec.Struct, frozen=True):
    content: bool
    redact: list[str]
    redact_patterns: dict[str, str]
    record_headers: list[str]
    pictures: bool
    raw: str


def digest_privacy(handed: bytes, environ: Mapping[str, str]) -> str:
    """Digest everything that hides something from spans: settings (JSON), ``OPENINFERENCE_*``."""
    privacy = msgspec.json.decode(handed, type=_Privacy)
    switches = {name: text for name, text in environ.items() if name.startswith("OPENINFERENCE_")}
    hidden = (
        privacy.content,
        sorted(privacy.redact),
        privacy.redact_patterns,
        sorted(privacy.record_headers),
        privacy.pictures,
        privacy.raw,
        switches,
    )
    return hashlib.sha256(msgspec.json.encode(hidden, order="sorted")).hexdigest()


@contextlib.contextmanager
def pointing_to_control_socket(store: str, control_socket: str) -> Iterator[None]:
    """Keep the file that points to the proxy's socket as long as the block runs (rule 1).

    Raises:
        OSError: the file cannot be written.
    """
    path = _pointer(Path(store))
    unnamed = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor is not a path
        file.write(control_socket)
    unnamed.rename(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def find_control_socket(store: Path) -> str | None:
    """Find the socket of the proxy that owns the store; ``None`` if there is none (rule 2)."""
    with contextlib.suppress(OSError, ValueError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(_pointer(store), flags)
        with open(descriptor, encoding="utf-8") as file:  # noqa: PTH123 - a descriptor is not a path
            control_socket = file.read(4096)
            owners = {os.fstat(descriptor).st_uid}
        status = os.lstat(control_socket)
        owners |= {status.st_uid, Path(control_socket).parent.lstat().st_uid}
        if stat.S_ISSOCK(status.st_mode) and owners == {os.geteuid()}:
            return control_socket
    return None


def _pointer(store: Path) -> Path:
    """Name the file; a link to the store has the same one as the store."""
    return Path(f"{store.resolve()}.door")
