"""A stage for clients of WebSockets: the demo upstream, also through ``spantap serve``, and checks.

A client makes the same session twice, with the server itself and through the proxy, and tells what
it heard. Ids and times differ from session to session, so :func:`even_out` makes them the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trustme

from codec.text.jsontext import decode_json, encode_json
from tests.corpus.recordings import Recording
from tests.corpus.response_oracle import expect_span
from tests.corpus.spans import select_attributes
from tests.docs.reader import read_spans
from tests.e2e.spantap import running_proxy, running_upstream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = (
    "HELLO",
    "TOOL",
    "Stage",
    "check_spans",
    "check_spoken",
    "even_out",
    "read_roles",
    "serving",
    "serving_by_tls",
)

HELLO: dict[str, Any] = {"model": "gpt-demo", "input": "Ahoy?", "instructions": "Be brief."}

TOOL: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}

_ID = re.compile(r"\b([a-z]+)_((?:user)?[0-9a-f]{16,}\w*)")
_TIME = re.compile(r'("created_at": ?)[\d.]+')


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Base URLs for clients, the store of the proxy, and whose certificates are to be trusted."""

    direct_url: str
    proxied_url: str
    store: Path
    ca: Path | None = None


@contextmanager
def serving(folder: Path, **variables: str) -> Iterator[Stage]:
    """Start the upstream and the proxy, with further variables."""
    with (
        running_upstream(folder) as port,
        running_proxy(
            folder,
            upstream_port=port,
            project="",
            endpoint="",
            protocol="http/protobuf",
            environment={"SPANTAP_WEBSOCKETS": "relay", **variables},
        ) as proxy,
    ):
        yield Stage(
            direct_url=f"http://127.0.0.1:{port}/v1",
            proxied_url=proxy.base_url,
            store=proxy.store,
        )


@contextmanager
def serving_by_tls(folder: Path) -> Iterator[Stage]:
    """Start both, for clients that insist on TLS."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    ca, chain, key = (folder / f"{name}.pem" for name in ("ca", "chain", "key"))
    authority.cert_pem.write_to_path(str(ca))
    certificate.private_key_and_cert_chain_pem.write_to_path(str(chain))
    certificate.private_key_pem.write_to_path(str(key))
    variables = {"SPANTAP_TLS_CERT": str(chain), "SPANTAP_TLS_KEY": str(key)}
    with serving(folder, **variables) as stage:
        plain_port = int(stage.direct_url.split(":")[2].partition("/")[0])
        with _ending_tls(plain_port, certificate) as port:
            yield Stage(
                direct_url=f"https://127.0.0.1:{port}/v1",
                proxied_url=stage.proxied_url.replace("http", "https", 1),
                store=stage.store,
                ca=ca,
            )


@contextmanager
def _ending_tls(plain_port: int, certificate: trustme.LeafCert) -> Iterator[int]:
    """Lead connections over TLS to a port that speaks none, until the end of the block."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    loop = asyncio.new_event_loop()

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far, near = await asyncio.open_connection("127.0.0.1", plain_port)
        await asyncio.gather(_pump(reader, near), _pump(far, writer))

    listening = asyncio.start_server(lead, "127.0.0.1", 0, ssl=context)
    server = loop.run_until_complete(listening)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        server.close()
        loop.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


def even_out(heard: Any) -> Any:
    """What a client heard, with ids numbered as they come, and without times."""
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return numbers.setdefault(found[0], f"{found[1]}_{len(numbers)}")

    return decode_json(_TIME.sub(r"\g<1>0", _ID.sub(number, encode_json(heard))))


def check_spans(store: Path, responses: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Compare spans of Responses with what a client made of the events.

    Args:
        store: of the proxy.
        responses: as the client has them at their ends.

    Returns:
        The attributes of their spans, in this order.
    """
    spans = {span.get("gen_ai.response.id"): span for span in read_spans(store, len(responses))}
    for response in responses:
        span = spans[response["id"]]
        expected = expect_span(Recording(id="", body=encode_json(response).encode()))
        assert select_attributes(span) == select_attributes(expected)
        assert span["llm.model_name"] == response["model"]
        assert span["network.protocol.name"] == "websocket"
    return [spans[response["id"]] for response in responses]


def check_spoken(store: Path, events: Iterable[Mapping[str, Any]]) -> None:
    """Compare spans of Realtime with the ends of responses that a client heard.

    Args:
        store: of the proxy.
        events: of the server, in which each response ends by a ``response.done``.
    """
    ended = [event["response"] for event in events if event["type"] == "response.done"]
    spans = {span["gen_ai.response.id"]: span for span in read_spans(store, len(ended))}
    for response in ended:
        span = spans[response["id"]]
        assert select_attributes(span) == _expect_spoken(response)
        assert span["network.protocol.name"] == "websocket"


def _expect_spoken(response: Mapping[str, Any]) -> dict[str, Any]:
    usage = response["usage"]
    asked, said = usage["input_token_details"], usage["output_token_details"]
    count = "llm.token_count"
    expected = {
        "llm.finish_reason": response["status"],
        f"{count}.prompt": usage["input_tokens"],
        f"{count}.prompt_details.audio": asked["audio_tokens"],
        f"{count}.prompt_details.cache_read": asked["cached_tokens"],
        f"{count}.completion": usage["output_tokens"],
        f"{count}.completion_details.audio": said["audio_tokens"],
        f"{count}.total": usage["total_tokens"],
    }
    for index, item in enumerate(response["output"]):
        message = f"llm.output_messages.{index}.message"
        expected[f"{message}.role"] = "assistant"
        if item["type"] == "function_call":
            call = f"{message}.tool_calls.0.tool_call"
            expected[f"{call}.id"] = item["call_id"]
            expected[f"{call}.function.name"] = item["name"]
            expected[f"{call}.function.arguments"] = item["arguments"]
            continue
        part, [content] = f"{message}.contents.0.message_content", item["content"]
        is_sound = "transcript" in content
        expected[f"{part}.type"] = "audio" if is_sound else "text"
        key = f"{part}.audio.audio.transcript" if is_sound else f"{part}.text"
        expected[key] = content["transcript" if is_sound else "text"]
    return expected


def read_roles(span: Mapping[str, Any]) -> list[str]:
    """The roles of the messages that a call asks."""
    prefix = "llm.input_messages."
    roles = {key: span[key] for key in span if re.fullmatch(rf"{prefix}\d+\.message\.role", key)}
    return [str(roles[f"{prefix}{at}.message.role"]) for at in range(len(roles))]
