"""Every private part of aiohttp that the proxy leans on, by name.

aiohttp promises nothing about these, so each new version of it may take one away or give it
another meaning, and a name of ours may come to hide one of its own. Here the list is exact: a
part that is gone, a use that is new and a name that collides each fail a test, and whoever
allows another version of aiohttp knows what to read in its source.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web, web_protocol
from aiohttp.web_protocol import RequestHandler

from proxy.downstream.connection import DownstreamConnection
from proxy.downstream.downstream import Answered, LastAnswer
from proxy.downstream.server import DownstreamServer

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROXY = Path(inspect.getfile(DownstreamServer)).parents[1]


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith(("__", "_abc_"))


def _private_parts(ours: type[Any], theirs: object) -> set[str]:
    """The private names of aiohttp's object that the code of our class uses."""
    used: set[str] = set(vars(ours))
    for member in vars(ours).values():
        function = member.fget if isinstance(member, property) else member
        if inspect.isfunction(function):
            used.update(function.__code__.co_names)
    return {name for name in used & set(dir(theirs)) if _is_private(name)}


async def _handle(_: web.BaseRequest) -> web.StreamResponse:
    raise AssertionError("nothing is served")


async def test_the_private_parts_of_the_server_side_are_these() -> None:
    """A connection is idle or busy, and has a parser and a loop of ours; no public way says so."""
    loop = asyncio.get_running_loop()
    server = web.Server(_handle)
    connection = RequestHandler(server, loop=loop)
    assert _private_parts(DownstreamConnection, connection) == {
        "_buffer_paused",
        "_close",
        "_drain_helper",
        "_force_close",
        "_handler_waiter",
        "_keepalive_handle",
        "_keepalive_timeout",
        "_loop",
        "_messages",
        "_next_keepalive_close_time",
        "_parser",
        "_pause_reading_for_buffer",
        "_process_keepalive",
        "_reading_paused",
        "_request_in_progress",
        "_resume_reading_if_drained",
        "_task_handler",
        "_waiter",
    }
    assert _private_parts(DownstreamServer, server) == set()
    for ours in (Answered, LastAnswer):
        assert _private_parts(ours, web.StreamResponse()) == set()


def test_no_private_part_is_used_of_an_object_that_is_not_ours() -> None:
    """Only what we inherit has parts that we know."""
    assert not list(_foreign_private_uses())


def _foreign_private_uses() -> Iterator[tuple[str, str]]:
    for path in sorted(_PROXY.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and _is_private(node.attr):
                owner = node.value
                if not (isinstance(owner, ast.Name) and owner.id in {"cls", "self"}):
                    yield str(path.relative_to(_PROXY)), node.attr


def test_the_private_names_that_are_imported_are_these() -> None:
    """The connection loop takes a fault from its parser in this form, and so many requests."""
    imported = {
        (str(path.relative_to(_PROXY)), alias.name)
        for path in _PROXY.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aiohttp")
        for alias in node.names
        if _is_private(alias.name) or alias.name == "MAX_MSG_QUEUE_SIZE"
    }
    assert imported == {
        ("downstream/connection.py", "_ErrInfo"),
        ("downstream/connection.py", "MAX_MSG_QUEUE_SIZE"),
        ("downstream/request_parser.py", "_ErrInfo"),
        ("downstream/request_parser.py", "MAX_MSG_QUEUE_SIZE"),
    }
    fault = web_protocol._ErrInfo(status=400, exc=ValueError(), message="why")
    assert (fault.status, fault.message) == (400, "why")
    assert web_protocol.MAX_MSG_QUEUE_SIZE == 32
