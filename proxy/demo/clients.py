"""Two clients for chats and responses with one face: the real SDK, and plain aiohttp.

The demo shows spantap under a client that people really use. Where the ``openai`` package is not
installed, aiohttp chats in its place. Both give plain JSON objects, so that a chat is written once.
"""

from __future__ import annotations

import importlib.util
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import aiohttp

from codec.jsontext import decode_json_object

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from openai import AsyncOpenAI

    from codec.jsontext import JsonObject

__all__ = ("ChatClient", "ChatError", "is_sdk_installed", "open_client")

_API_KEY = "demo"
"""The demo upstream asks for none, but the SDK insists on one."""


class ChatError(Exception):
    """The server answered with an error status.

    Attributes:
        status: the HTTP status.
        message: the server's own words.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status
        self.message = message


class ChatClient(Protocol):
    """What a chat needs; both methods raise :class:`ChatError`."""

    @property
    def name(self) -> str:
        """The client's name, in words."""

    async def complete(self, **request: Any) -> JsonObject:
        """Send a request and return the whole ``chat.completion``."""

    async def respond(self, **request: Any) -> JsonObject:
        """A whole response of the Responses API."""

    def stream(self, **request: Any) -> AsyncGenerator[JsonObject]:
        """Send a request with ``stream: true`` and yield its chunks; closing it hangs up."""


def is_sdk_installed() -> bool:
    """Whether the ``openai`` package can be imported."""
    return importlib.util.find_spec("openai") is not None


@asynccontextmanager
async def open_client(base_url: str, *, use_sdk: bool) -> AsyncIterator[ChatClient]:
    """A client for the server at ``base_url`` (which ends in ``/v1``)."""
    if use_sdk:
        async with _open_sdk(base_url) as sdk:
            yield _SdkClient(sdk)
    else:
        headers = {"Authorization": f"Bearer {_API_KEY}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            yield _PlainClient(session, base_url)


def _open_sdk(base_url: str) -> AsyncOpenAI:
    import openai  # noqa: PLC0415 - an optional package, and half a second to import

    # The environment's proxies are no way to a server on loopback, and a retry would be one call
    # more than the demo speaks of.
    http_client = openai.DefaultAsyncHttpx2Client(trust_env=False)
    return openai.AsyncOpenAI(
        api_key=_API_KEY, base_url=base_url, max_retries=0, http_client=http_client
    )


class _SdkClient:
    """The ``openai`` SDK, as people use it."""

    name = "the openai SDK"

    def __init__(self, sdk: AsyncOpenAI) -> None:
        self._create = sdk.chat.completions.create
        self._respond = sdk.responses.create

    async def complete(self, **request: Any) -> JsonObject:
        with _sdk_errors():
            completion = await self._create(**request)
        plain: JsonObject = completion.model_dump(exclude_unset=True)
        return plain

    async def respond(self, **request: Any) -> JsonObject:
        with _sdk_errors():
            response = await self._respond(**request)
        plain: JsonObject = response.model_dump(exclude_unset=True)
        return plain

    async def stream(self, **request: Any) -> AsyncGenerator[JsonObject]:
        with _sdk_errors():
            async with await self._create(**request, stream=True) as chunks:
                async for chunk in chunks:
                    yield chunk.model_dump(exclude_unset=True)


@contextmanager
def _sdk_errors() -> Iterator[None]:
    from openai import APIStatusError  # noqa: PLC0415 - as in _open_sdk

    try:
        yield
    except APIStatusError as error:
        raise ChatError(error.status_code, _error_message(error.body)) from error


class _PlainClient:
    """A client that sends the requests by aiohttp."""

    name = "aiohttp"

    def __init__(self, session: aiohttp.ClientSession, base_url: str) -> None:
        self._session = session
        self._base_url = base_url

    async def complete(self, **request: Any) -> JsonObject:
        async with self._post("chat/completions", request) as response:
            return decode_json_object(await response.read())

    async def respond(self, **request: Any) -> JsonObject:
        async with self._post("responses", request) as response:
            return decode_json_object(await response.read())

    async def stream(self, **request: Any) -> AsyncGenerator[JsonObject]:
        async with self._post("chat/completions", request | {"stream": True}) as response:
            # One line, one event: true of OpenAI's streams, and all that a demo needs.
            async for line in response.content:
                data = line.removeprefix(b"data: ")
                if data.startswith(b"{"):
                    yield decode_json_object(data)

    @asynccontextmanager
    async def _post(self, path: str, request: JsonObject) -> AsyncIterator[aiohttp.ClientResponse]:
        async with self._session.post(f"{self._base_url}/{path}", json=request) as response:
            if response.status >= 400:
                error = decode_json_object(await response.read())
                raise ChatError(response.status, _error_message(error.get("error")))
            yield response


def _error_message(error: object) -> str:
    """The words of an OpenAI error object; the SDK has taken it out of its envelope."""
    return str(error.get("message")) if isinstance(error, dict) else str(error)
