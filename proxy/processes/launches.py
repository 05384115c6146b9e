"""The supervisor's control socket for launches and orders (:mod:`proxy.processes.launch_channel`).

A proxy that a launch has started ends when no launch uses it any more, neither the first nor a
later one. A proxy that ``spantap serve`` started stays. Launches that come while the proxy starts
wait; while it ends, they are turned away.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from proxy.own_address import is_own_address
from proxy.prefixes import RUN_PREFIX, TO_PREFIX, split_segment
from proxy.processes.launch_channel import (
    MAX_LINE_BYTES,
    Join,
    Joined,
    Left,
    Stored,
    decode_line,
    digest_privacy,
    encode_line,
)
from proxy.processes.open_calls import NO_CALLS, AskOpen
from proxy.processes.store_orders import CompactStore, DeleteSpans, Undone
from proxy.tasks import spawn
from proxy.upstream.owners import BASE_URLS, Owner
from proxy.upstream.passes import write_pass
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from proxy.processes.intercept_orders import EndedPort
    from proxy.processes.interceptions import Interceptions
    from proxy.processes.launch_channel import LaunchMessage
    from proxy.processes.open_calls import OpenCalls
    from proxy.processes.store_orders import StoreAnswer, StoreOrder
    from telemetry.observing.encryption import Cipher

_MESSAGES_PREFIXES = ("v1/messages", "v1", "")
"""Prefixes that match the path of Anthropic's Messages, the longest first."""


ANSWER_SECONDS = 0.15
"""How long telemetry may take to list the open calls. It needs a millisecond, unless it is
busy with a large body."""


class _Table(msgspec.Struct, frozen=True):
    url: str
    prefix: str


class _Routes(msgspec.Struct, frozen=True):
    """The settings that decide where calls go (:mod:`proxy.upstream.routes`)."""

    upstream: str | None
    upstreams: tuple[_Table, ...]
    catalogue: bool | None

    @property
    def has_catalogue(self) -> bool:
        has_default = self.upstream is not None or not all(
            table.prefix.strip("/") for table in self.upstreams
        )
        return not has_default if self.catalogue is None else self.catalogue

    @property
    def messages_host(self) -> str:
        """The host of calls of Anthropic's API that name no upstream."""
        urls = {table.prefix.strip("/"): table.url for table in self.upstreams}
        by_prefix = next((urls[one] for one in _MESSAGES_PREFIXES if one in urls), None)
        return urlsplit(by_prefix or self.upstream or BASE_URLS[Owner.ANTHROPIC]).hostname or ""


class Launches:
    """The launches that use this proxy.

    Args:
        handed: all settings, as JSON.
        address: the address of the traffic port.
        url: its URL for clients on this machine.
        cipher: signs the passes to base URLs.
        first: the connection of the launch that started this proxy, if one did.
        interceptions: opens ports for launches that want their TLS opened.
        tell_open: returns the open calls.
        carry_out: carries out an order for the store; returns ``None`` if nobody answers.

    Attributes:
        are_over: set when no launch is left and the proxy was started for launches.
    """

    def __init__(
        self,
        handed: bytes,
        address: tuple[str, int],
        url: str,
        cipher: Cipher,
        first: socket.socket | None,
        *,
        interceptions: Interceptions,
        tell_open: Callable[[], Awaitable[OpenCalls]],
        carry_out: Callable[[StoreOrder], Awaitable[StoreAnswer | None]],
    ) -> None:
        self.are_over = asyncio.Event()
        self._address = address
        self._cipher = cipher
        self._first = first
        self._interceptions = interceptions
        interceptions.on_gone = self._end_if_unused
        self._tell_open = tell_open
        self._order = carry_out
        routes = msgspec.json.decode(handed, type=_Routes)
        self._answer = Joined(
            pid=os.getpid(),
            url=url,
            paths={},
            stays=first is None,
            has_catalogue=routes.has_catalogue,
            messages_host=routes.messages_host,
            privacy=digest_privacy(handed, os.environ),
        )
        self._count = 0
        self._is_going = False
        self._are_stored = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def open(self, control_socket: socket.socket) -> None:
        """Accept launches: the one that started this proxy, and those that wait to connect."""
        if self._first is not None:
            self._begin(*await asyncio.open_unix_connection(sock=self._first, limit=MAX_LINE_BYTES))
        self._server = await asyncio.start_unix_server(
            self._begin, sock=control_socket, limit=MAX_LINE_BYTES
        )

    def close(self) -> None:
        """Accept no more launches."""
        self._is_going = True
        if self._server is not None:
            self._server.close()

    def tell_stored(self) -> None:
        """Tell the launches that wait for the end that all calls are stored."""
        self._are_stored.set()

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        spawn(self._serve(reader, writer), name="launch")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one launch to its end; the last one's connection ends with the proxy."""
        self._count += 1
        ended = None
        try:
            with contextlib.suppress(OSError, ValueError):  # it is gone, or sent something else
                message = decode_line(await reader.readline())
                if isinstance(message, AskOpen):  # not a launch: the proxy does not stay for it
                    self._count -= 1
                    writer.write(encode_line(await self._tell_open()))
                    return
                if isinstance(message, Join) and not self._is_going:
                    ended = await self._attend(message, reader, writer)
                else:
                    await self._obey(message, reader, writer)
            self._count -= 1
            self._end_if_unused()
            stays = not self._is_going
            writer.write(encode_line(Left(stays=stays, intercept=ended)))
            if not stays:
                await self._are_stored.wait()
                writer.write(encode_line(Stored()))
                await asyncio.get_running_loop().create_future()
        finally:
            writer.close()

    def _end_if_unused(self) -> None:
        """End a proxy that was started for launches and has none; one that comes now is too late.

        Processes that outlive their command may still need it.
        """
        if self._first is not None and not self._count and not self._interceptions.is_needed:
            self._is_going = True
        if self._is_going:
            self.are_over.set()

    async def _attend(
        self, asked: Join, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> EndedPort | None:
        """Tell a launch where the proxy is, and wait for its end; return what was intercepted."""
        paths = {name: self._find_path(url) for name, url in asked.urls.items()}
        answer = msgspec.structs.replace(self._answer, paths=paths)
        opened = None
        if asked.interception is not None:
            try:
                opened = self._interceptions.open(asked.interception)
                answer = msgspec.structs.replace(answer, intercept=opened)
            except ConfigurationError as error:
                answer = msgspec.structs.replace(answer, error=str(error))
        writer.write(encode_line(answer))
        with contextlib.suppress(OSError):  # it was killed
            while await reader.read(MAX_LINE_BYTES):
                pass
        return None if opened is None else await self._interceptions.end(opened.number)

    async def _obey(
        self,
        message: LaunchMessage | None,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Carry orders out until no more come."""
        while isinstance(message, DeleteSpans | CompactStore):
            writer.write(encode_line(await self._carry_out(message)))
            message = decode_line(await reader.readline())

    async def _carry_out(self, order: StoreOrder) -> StoreAnswer:
        if self._is_going:
            return Undone(words="the proxy that has the store is just ending")
        answer = await self._order(order)
        if answer is None:
            words = "the telemetry process, which has the store, does not answer"
            return Undone(words=words, may_pass=True)
        return answer

    def _find_path(self, url: str) -> str:
        """Find the path for a base URL: its own path if it leads here already, else a pass.

        If the URL belongs to another launch, the path leaves out that launch.
        """
        with contextlib.suppress(ValueError):
            parts = urlsplit(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            if is_own_address(self._address, parts.hostname, port):
                path = parts.path.rstrip("/")
                if path.startswith(RUN_PREFIX):
                    path = split_segment(path, RUN_PREFIX)[1].rstrip("/")
                return path
        return TO_PREFIX + write_pass(url, self._cipher)


class OpenCallsQuestion:
    """Asks telemetry which calls are open; one question serves all who ask at the same time.

    Args:
        ask: sends the question to the present telemetry process; false if there is none.
    """

    def __init__(self, ask: Callable[[AskOpen], bool]) -> None:
        self._ask = ask
        self._answer: asyncio.Future[OpenCalls] | None = None

    def hear(self, answer: OpenCalls) -> None:
        """Take telemetry's answer; nobody waits any more for one that comes late."""
        waiting, self._answer = self._answer, None
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def tell(self) -> OpenCalls:
        """Return the open calls; none if telemetry does not answer in time."""
        waiting = self._answer
        if waiting is None:
            if not self._ask(AskOpen()):
                return NO_CALLS
            waiting = self._answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(waiting)
        except TimeoutError:
            if self._answer is waiting:
                self._answer = None
            return NO_CALLS
