"""The API over real sockets, of a store on disk: what the tests of this folder ask."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jsonschema import Draft202012Validator  # type: ignore[import-untyped, unused-ignore]

from codec.text.jsontext import decode_json
from tests.proxy.page.pages import open_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from aiohttp import ClientSession

__all__ = ("Api", "Told", "check_answer", "serve_api")


_SCHEMA = decode_json(
    Path(__file__).parents[3].joinpath("docs", "page-api.schema.json").read_bytes()
)

_VALIDATORS = {
    name: Draft202012Validator({**_SCHEMA, "$ref": f"#/$defs/{name}"}) for name in _SCHEMA["$defs"]
}

_NAMES = [
    (re.compile(pattern), name)
    for pattern, name in (
        ("status", "status"),
        ("columns", "columns"),
        ("settings", "settings"),
        ("calls", "calls"),
        ("calls/[^/]+", "call"),
        ("calls/[^/]+/(messages|tools)/[^/]+", "slice"),
        ("calls/[^/]+/stream", "stream"),
        ("calls/[^/]+/copy", "copy"),
        ("calls/[^/]+/diff", "diff"),
        ("conversations", "conversations"),
        ("conversations/[^/]+", "conversation"),
        ("conversations/[^/]+/transcript", "transcript"),
        ("conversations/[^/]+/context", "context"),
        ("failures", "failures"),
        ("groups", "groups"),
        ("rankings", "rankings"),
        ("runs/[^/]+", "run_tree"),
        ("stats", "stats"),
    )
]
"""Which definition of the schema an answer is held to, by its path."""


class Told(NamedTuple):
    """What the API answered."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        """The body, which is strict JSON."""
        assert self.headers["Content-Type"] == "application/json", self.body[:200]
        assert self.status >= 400 or self.body.isascii()
        return decode_json(self.body)


@lru_cache(1000)
def _validate(name: str, body: bytes) -> None:
    """Hold a body to a definition of the schema; one that comes again is held to it once."""
    _VALIDATORS[name].validate(decode_json(body))


def check_answer(path: str, told: Told) -> None:
    """Hold an answer to the schema; nothing is held of pictures and downloads."""
    if told.status >= 400:
        assert told.json
        _validate("error", told.body)
        return
    for pattern, name in _NAMES:
        if pattern.fullmatch(path):
            assert told.json
            _validate(name, told.body)
            return
    assert path.split("/")[2] in {"images", "pictures", "raw"}, path


class Api:
    """Asks the API."""

    def __init__(self, session: ClientSession, base: str) -> None:
        self._session = session
        self._base = base

    async def ask(self, path: str, /, **parameters: str | int) -> Told:
        """Ask for a path below ``/api/``; a trailing underscore of a name is left out."""
        params = {name.rstrip("_"): str(value) for name, value in parameters.items()}
        async with self._session.get(f"{self._base}/api/{path}", params=params) as answer:
            told = Told(answer.status, await answer.read(), answer.headers)
        check_answer(path.partition("?")[0], told)
        return told

    async def get(self, path: str, /, **parameters: str | int) -> Any:
        """Ask for what is there."""
        told = await self.ask(path, **parameters)
        assert told.status == 200, told
        return told.json


@asynccontextmanager
async def serve_api(store: Path, **settings: object) -> AsyncIterator[Api]:
    """Serve the page of a store on a port of this machine, and ask with its token."""
    async with open_page(store, **settings) as page:
        yield Api(page.session, page.url)
