"""Two clients with the same methods: the ``openai`` SDK, and aiohttp if that is not installed.

The demo shows spantap with a client that people really use. Both clients take and return plain JSON
objects, so that a call is written once. WebSockets are always aiohttp's: the SDK needs one more
package for them.
"""

from __future__ import annotations

import importlib.util
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urljoin

import aiohttp

from codec.text.jsontext import decode_json_object, encode_json

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from openai import AsyncOpenAI

    from codec.text.jsontext import JsonObject

CHAT_COMPLETIONS, COMPLETIONS, RESPONSES = "chat/completions", "completions", "responses"
EMBEDDINGS, MODERATIONS, IMAGES = "embeddings", "moderations", "images/generations"
SPEECH, TRANSCRIPTIONS, REALTIME = "audio/speech", "audio/transcriptions", "realtime"
"""Paths of OpenAI's APIs, below the base URL. Other paths begin with a slash, and at the host."""

_API_KEY = "demo"
"""The demo upstream needs no key, but the SDK does."""


class ChatError(Exception):
    """The server answered with an error status and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status
        self.message = message


class ChatClient(Protocol):
    """The client that the demo's calls need; all methods raise :class:`ChatError`."""

    async def ask(self, path: str, **request: Any) -> JsonObject:
        """Send a request and return the whole answer."""

    async def download(self, path: str, **request: Any) -> bytes:
        """Send a request and return the answer, which is a file."""

    async def upload(self, path: str, file: tuple[str, bytes], **members: str) -> JsonObject:
        """Send a form with a file, by its name and content, and return the whole answer."""

    async def talk(self, path: str, *messages: JsonObject, last: str) -> list[JsonObject]:
        """Send messages over a WebSocket, and return the events up to one of the type `last`."""

    def stream(self, **request: Any) -> AsyncGenerator[JsonObject]:
        """Send a chat with ``stream: true`` and yield its chunks; closing it hangs up."""


def is_sdk_installed() -> bool:
    """Tell whether the ``openai`` package can be imported."""
    return importlib.util.find_spec("openai") is not None


@asynccontextmanager
async def open_client(base_url: str, *, use_sdk: bool) -> AsyncIterator[ChatClient]:
    """Open a client for the server at ``base_url`` (which ends in ``/v1``)."""
    if use_sdk:
        async with _open_sdk(base_url) as sdk:
            yield _SdkClient(sdk)
    else:
        async with _open_session() as session:
            yield _PlainClient(session, base_url)


def _open_sdk(base_url: str) -> AsyncOpenAI:
    import openai  # noqa: PLC0415 - an optional package, and half a second to import

    # A proxy of the environment cannot reach a server on loopback, and a retry would be a call that
    # the demo does not announce.
    http_client = openai.DefaultAsyncHttpx2Client(trust_env=False)
    return openai.AsyncOpenAI(
        api_key=_API_KEY, base_url=base_url, max_retries=0, http_client=http_client
    )


def _open_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(headers={"Authorization": f"Bearer {_API_KEY}"})


class _SdkClient:
    def __init__(self, sdk: AsyncOpenAI) -> None:
        self._create: dict[str, Any] = {
            CHAT_COMPLETIONS: sdk.chat.completions.create,
            COMPLETIONS: sdk.completions.create,
            RESPONSES: sdk.responses.create,
            EMBEDDINGS: sdk.embeddings.create,
            MODERATIONS: sdk.moderations.create,
            IMAGES: sdk.images.generate,
            SPEECH: sdk.audio.speech.create,
            TRANSCRIPTIONS: sdk.audio.transcriptions.create,
        }
        self._post = sdk.post  # for APIs that the package does not have
        self._base_url = str(sdk.base_url)

    async def ask(self, path: str, **request: Any) -> JsonObject:
        with _sdk_errors():
            if path not in self._create:
                url = urljoin(self._base_url, path)
                return await self._post(url, body=request, cast_to=dict)
            answer = await self._create[path](**request)
        plain: JsonObject = answer.model_dump(exclude_unset=True)
        return plain

    async def download(self, path: str, **request: Any) -> bytes:
        with _sdk_errors():
            content: bytes = await (await self._create[path](**request)).aread()
        return content

    async def upload(self, path: str, file: tuple[str, bytes], **members: str) -> JsonObject:
        return await self.ask(path, file=file, **members)

    async def talk(self, path: str, *messages: JsonObject, last: str) -> list[JsonObject]:
        async with _open_session() as session:
            return await _PlainClient(session, self._base_url).talk(path, *messages, last=last)

    async def stream(self, **request: Any) -> AsyncGenerator[JsonObject]:
        with _sdk_errors():
            async with await self._create[CHAT_COMPLETIONS](**request, stream=True) as chunks:
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
    def __init__(self, session: aiohttp.ClientSession, base_url: str) -> None:
        self._session = session
        self._base_url = base_url

    async def ask(self, path: str, **request: Any) -> JsonObject:
        return decode_json_object(await self.download(path, **request))

    async def download(self, path: str, **request: Any) -> bytes:
        async with self._post(path, json=request) as response:
            return await response.read()

    async def upload(self, path: str, file: tuple[str, bytes], **members: str) -> JsonObject:
        form = aiohttp.FormData(members)
        form.add_field("file", file[1], filename=file[0])
        async with self._post(path, data=form) as response:
            return decode_json_object(await response.read())

    async def talk(self, path: str, *messages: JsonObject, last: str) -> list[JsonObject]:
        try:
            async with self._session.ws_connect(self._build_url(path)) as socket:
                for message in messages:
                    await socket.send_str(encode_json(message))
                events = []
                async for heard in socket:
                    events.append(event := decode_json_object(heard.data.encode()))
                    if event["type"] == "error":
                        raise ChatError(event.get("status", 400), _error_message(event["error"]))
                    if event["type"] == last:
                        break
                return events
        except aiohttp.WSServerHandshakeError as error:
            raise ChatError(error.status, error.message) from error

    async def stream(self, **request: Any) -> AsyncGenerator[JsonObject]:
        async with self._post(CHAT_COMPLETIONS, json=request | {"stream": True}) as response:
            # One line is one event: that is so in OpenAI's streams, and enough for a demo.
            async for line in response.content:
                data = line.removeprefix(b"data: ")
                if data.startswith(b"{"):
                    yield decode_json_object(data)

    @asynccontextmanager
    async def _post(self, path: str, **body: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        async with self._session.post(self._build_url(path), **body) as response:
            if response.status >= 400:
                error = decode_json_object(await response.read())
                raise ChatError(response.status, _error_message(error.get("error")))
            yield response

    def _build_url(self, path: str) -> str:
        return urljoin(f"{self._base_url.rstrip('/')}/", path)


def _error_message(error: object) -> str:
    """Return the words of an OpenAI error object, which the SDK takes out of its envelope."""
    return str(error.get("message")) if isinstance(error, dict) else str(error)
