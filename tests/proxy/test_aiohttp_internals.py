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
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from proxy.upstream.connection import UpstreamConnector, UpstreamProtocol

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROXY = Path(inspect.getfile(UpstreamProtocol)).parents[1]


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


async def test_the_private_parts_of_the_client_side_are_these() -> None:
    """The protocol needs to know what it waits for; the connector makes protocols of ours."""
    loop = asyncio.get_running_loop()
    assert _private_parts(UpstreamProtocol, ResponseHandler(loop)) == {
        "_exception",
        "_loop",
        "_parser",
        "_pause_transport_reading",
        "_payload",
        "_reading_paused",
        "_resume_transport_reading",
        "_skip_payload",
        "_upgraded",
    }
    async with aiohttp.TCPConnector() as connector:
        assert _private_parts(UpstreamConnector, connector) == {"_factory", "_loop"}
    async with UpstreamConnector(
        tls=ssl.create_default_context(), connect_seconds=1.0
    ) as connector:
        assert connector._factory().__class__ is UpstreamProtocol


async def test_the_one_private_part_of_an_object_that_is_not_ours_is_this() -> None:
    """What a reader of a body holds is only handed out once its error is taken away."""
    assert list(_foreign_private_uses()) == [("upstream/response.py", "_exception")]
    loop = asyncio.get_running_loop()
    reader = aiohttp.StreamReader(ResponseHandler(loop), 1024, loop=loop)
    assert reader._exception is None


def _foreign_private_uses() -> Iterator[tuple[str, str]]:
    for path in sorted(_PROXY.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and _is_private(node.attr):
                owner = node.value
                if not (isinstance(owner, ast.Name) and owner.id in {"cls", "self"}):
                    yield str(path.relative_to(_PROXY)), node.attr


def test_no_private_name_is_imported() -> None:
    """Nor the module that the server side of aiohttp is in."""
    imported = {
        (str(path.relative_to(_PROXY)), alias.name)
        for path in _PROXY.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aiohttp")
        for alias in node.names
        if _is_private(alias.name) or node.module == "aiohttp.web_protocol"
    }
    assert imported == set()
