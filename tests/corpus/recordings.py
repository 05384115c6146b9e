"""The recorded traffic: where it is, and what one exchange of it is.

The recordings stay where they are. They are looked for in the folder that the environment variable
``SPANTAP_RECORDINGS`` names, else beside the checkout, in ``../shared``; that folder holds
``recordings/exchanges.jsonl`` and ``recordings-dynamo/``, each with a README of its own.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.corpus.oracle import is_stream, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = (
    "FOLDER",
    "FRAMINGS",
    "NEEDS_RECORDINGS",
    "VARIABLE",
    "Recording",
    "count_lines",
    "explain_absence",
    "find_folder",
    "load_all",
    "load_chats",
    "load_completions",
    "load_counts",
    "load_dynamo",
    "load_dynamo_expectations",
    "load_embeddings",
    "load_gemini",
    "load_gemini_streams",
    "load_messages",
    "load_moderations",
    "load_ollama_chats",
    "load_ollama_embeddings",
    "load_ollama_texts",
    "load_rankings",
    "load_responses",
    "read_fields",
    "read_lines",
)

VARIABLE = "SPANTAP_RECORDINGS"

_ROOT = Path(__file__).resolve().parents[2]
_CHATS = Path("recordings", "exchanges.jsonl")
_OTHERS = Path("recordings-apis", "exchanges.jsonl")
_DYNAMO = Path("recordings-dynamo")
_HOP_FIELDS = {
    "connection",
    "content-encoding",
    "content-length",
    "keep-alive",
    "transfer-encoding",
}

_VERTEX = (":rawPredict", ":streamRawPredict")
_GEMINI = {"gemini.generate": ":generateContent", "gemini.stream": ":streamGenerateContent"}
_CHAT_TARGET = b"/v1/chat/completions"
_PROMPT: dict[str, Any] = {"model": "m-1", "prompt": "hi"}
_PLAIN: dict[str, Any] = {"stream": False}
_QUESTION: dict[str, Any] = {"model": "m-1", "messages": [{"role": "user", "content": "hi"}]}


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One exchange to replay.

    Attributes:
        target: path and query of the request.
        request: the client's body.
        content_type: what the client calls it.
        head: the answer's fields, framing left out.
        breaks_off: the connection ends before the answer does.
    """

    id: str
    target: bytes = b""
    request: bytes = b"{}"
    content_type: bytes = b"application/json"
    status: int = 200
    head: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes
    breaks_off: bool = False

    @property
    def text(self) -> bytes:
        """The body without its content coding, as far as it came."""
        if (b"content-encoding", b"gzip") not in self.head:
            return self.body
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(self.body)

    @property
    def takes_usage_option(self) -> bool:
        """Whether a stream of this API has a usage that must be asked for."""
        return self.target.partition(b"?")[0].endswith(b"completions")

    @property
    def asks_stream(self) -> bool:
        """Whether the client wants an event stream."""
        return bool((parse_json(self.request) or {}).get("stream") is True)

    def request_with(self, *, asks_usage: bool) -> bytes:
        """The client's body, asking for usage or not; as it was recorded where that fits."""
        request = parse_json(self.request)
        options = request.get("stream_options") or {}
        if not self.asks_stream or bool(options.get("include_usage")) == asks_usage:
            return self.request
        if asks_usage:
            request["stream_options"] = options | {"include_usage": True}
        else:
            del request["stream_options"]
        return json.dumps(request, ensure_ascii=False).encode()


def _with_crlf(recording: Recording) -> Recording:
    body = recording.body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return replace(recording, body=body)


def _with_gzip(recording: Recording) -> Recording:
    head = (*recording.head, (b"content-encoding", b"gzip"))
    return replace(recording, head=head, body=gzip.compress(recording.body, mtime=0))


FRAMINGS: dict[str, Callable[[Recording], Recording]] = {
    "as recorded": lambda recording: recording,
    "CRLF": _with_crlf,
    "gzip": _with_gzip,
    "CRLF in gzip": lambda recording: _with_gzip(_with_crlf(recording)),
}
"""The same answer in other bytes."""


def find_folder() -> Path | None:
    """The folder of recordings, ``None`` where there is none."""
    named = os.environ.get(VARIABLE)
    folder = Path(named) if named else _ROOT.parent / "shared"
    return folder if (folder / _CHATS).is_file() else None


def explain_absence() -> str:
    """Why there is nothing to replay."""
    if named := os.environ.get(VARIABLE):
        return f"{VARIABLE} is {named!r}, but {Path(named) / _CHATS} is no file"
    return (
        f"no recordings: {VARIABLE} is not set, and {_ROOT.parent / 'shared' / _CHATS} is no file"
    )


FOLDER = find_folder()
NEEDS_RECORDINGS = [
    pytest.mark.corpus,
    pytest.mark.skipif(FOLDER is None, reason=explain_absence()),
]
"""The marks of tests that do nothing without recordings."""


def load_all(*loaders: Callable[[Path], Iterable[Recording]]) -> list[Recording]:
    """What these functions load; nothing where there are no recordings."""
    return [one for load in loaders if FOLDER is not None for one in load(FOLDER)]


def count_lines(folder: Path, api: str) -> int:
    """The exchanges of an API in the file, counted as text."""
    lines = (folder / _CHATS).read_text(encoding="utf-8").splitlines()
    return sum(1 for line in lines if f'"api": "{api}"' in line)


def load_chats(folder: Path) -> Iterator[Recording]:
    """Every chat-completions exchange of ``exchanges.jsonl``."""
    return _load(folder, "chat.completions", _QUESTION, _CHAT_TARGET)


def load_completions(folder: Path) -> Iterator[Recording]:
    """Every legacy completion of ``exchanges.jsonl``."""
    return _load(folder, "completions", _PROMPT, b"/v1/completions")


def load_embeddings(folder: Path) -> Iterator[Recording]:
    """Every embedding exchange of ``exchanges.jsonl``."""
    return _load(folder, "embeddings", {"model": "m-1", "input": "hi"}, b"/v1/embeddings")


def load_responses(folder: Path) -> Iterator[Recording]:
    """Every exchange of the Responses API, of both files; what is no text is left out."""
    asked = {"model": "m-1", "input": "hi"}
    for file in (_CHATS, _OTHERS):
        yield from _load(folder, "responses", asked, b"/v1/responses", file)


def load_messages(folder: Path) -> Iterator[Recording]:
    """Every exchange of Anthropic's Messages, of both files."""
    question = [{"role": "user", "content": "hi"}]
    asked = {"model": "m-1", "max_tokens": 9, "messages": question}
    for file in (_CHATS, _OTHERS):
        yield from _load(folder, "messages", asked, b"/v1/messages", file, _VERTEX)


def load_counts(folder: Path) -> Iterator[Recording]:
    """Every count of tokens."""
    return _load(folder, "messages.count_tokens", {}, b"/v1/messages/count_tokens", _OTHERS)


def load_rankings(folder: Path) -> Iterator[Recording]:
    """Every ranking."""
    asked = {"model": "m-1", "query": "hi", "documents": ["one", {"text": "two"}, {"n": "three"}]}
    return _load(folder, "rerank", asked, b"/v1/rerank", _OTHERS)


def load_moderations(folder: Path) -> Iterator[Recording]:
    """Every moderation; a report of how many there were, which a ``GET`` asks for, is none."""
    every = _load(folder, "moderations", {"input": "hi"}, b"/v1/moderations", _OTHERS)
    return (one for one in every if b"/usage/" not in one.target)


def load_ollama_chats(folder: Path) -> Iterator[Recording]:
    """Every chat of Ollama's own API; those without a request are streams if their answers are."""
    return _load(folder, "ollama.chat", _QUESTION | _PLAIN, b"/api/chat", _OTHERS)


def load_ollama_texts(folder: Path) -> Iterator[Recording]:
    """Every text from a prompt of Ollama's own API."""
    return _load(folder, "ollama.generate", _PROMPT | _PLAIN, b"/api/generate", _OTHERS)


def load_ollama_embeddings(folder: Path) -> Iterator[Recording]:
    """Every embedding of Ollama's own API, which the file has among what calls no model."""
    for recording in _load(folder, "ollama.other", {}, b"/api/embed", _OTHERS):
        if "input" in parse_json(recording.request):
            yield recording


def load_gemini(folder: Path) -> Iterator[Recording]:
    """Every plain answer of Gemini's, on either of Google's hosts."""
    return _load_gemini(folder, "gemini.generate")


def load_gemini_streams(folder: Path) -> Iterator[Recording]:
    """Every streamed answer of Gemini's, as events or as an array."""
    return _load_gemini(folder, "gemini.stream")


def _load_gemini(folder: Path, api: str) -> Iterator[Recording]:
    asked = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    target = b"/v1beta/models/m-1" + _GEMINI[api].encode()
    return _load(folder, api, asked, target, _OTHERS, (_GEMINI[api],), asks_by_body=False)


def _load(
    folder: Path,
    api: str,
    asked: dict[str, Any],
    target: bytes,
    file: Path = _CHATS,
    other_ends: tuple[str, ...] = (),
    *,
    asks_by_body: bool = True,
) -> Iterator[Recording]:
    for exchange in read_lines(folder, api, file):
        if not isinstance(exchange["response"]["body"], str):
            continue
        response = exchange["response"]
        body = response["body"].encode()
        question = asked | ({"stream": True} if exchange["streaming"] and asks_by_body else {})
        yield Recording(
            id=exchange["id"],
            target=_target(exchange["request"]["path"], target, other_ends),
            request=exchange["request"]["body"].encode() or json.dumps(question).encode(),
            status=response["status"],
            head=read_fields(response["headers"]),
            body=body,
        )


def read_lines(folder: Path, api: str, file: Path = _OTHERS) -> Iterator[dict[str, Any]]:
    """The exchanges of an API, as the file has them."""
    for line in (folder / file).read_text(encoding="utf-8").split("\n")[:-1]:
        exchange = parse_json(line)
        if exchange["api"] == api:
            yield exchange


def read_fields(headers: dict[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    """The fields of an answer's head, framing left out."""
    return tuple(
        (name.encode(), value.encode())
        for name, value in headers.items()
        if name not in _HOP_FIELDS
    )


def load_dynamo(folder: Path, *, legacy: bool = False) -> Iterator[Recording]:
    """The streams of the Dynamo recordings, chats or legacy; engine chunks become events."""
    asked, target = (_PROMPT, b"/v1/completions") if legacy else (_QUESTION, _CHAT_TARGET)
    for expectation in load_dynamo_expectations(folder, legacy=legacy):
        name = expectation["file"]
        data = (folder / _DYNAMO / name).read_bytes()
        if name.endswith(".jsonl"):
            data = _events(data.splitlines())
        elif name.endswith(".json"):
            chunks = (piece["data"] for piece in parse_json(data)["input_stream"])
            data = _events(json.dumps(chunk, ensure_ascii=False).encode() for chunk in chunks)
        assert is_stream(data)
        yield Recording(
            id=f"dynamo/{name}",
            target=target,
            request=json.dumps(asked | {"stream": True}).encode(),
            status=200,
            head=((b"content-type", b"text/event-stream"),),
            body=data,
        )


def load_dynamo_expectations(folder: Path, *, legacy: bool = False) -> list[dict[str, Any]]:
    """The entries of ``expected.json`` that are about chat streams, or about legacy ones."""
    entries = parse_json((folder / _DYNAMO / "expected.json").read_bytes())
    return [entry for entry in entries if ("/completions/" in entry["file"]) is legacy]


def _events(chunks: Any) -> bytes:
    return b"".join(b"data: " + chunk + b"\n\n" for chunk in chunks)


def _target(path: str, ours: bytes, other_ends: tuple[str, ...]) -> bytes:
    """The recorded path; a placeholder for a base URL goes, a foreign endpoint becomes ours.

    One exchange has a chat completion under a prompt's own path, which spantap would relay without
    looking into it.
    """
    if path.startswith("<"):
        path = path[path.index("/") :]
    known = path.partition("?")[0].endswith((ours.decode().removeprefix("/v1"), *other_ends))
    return path.encode() if known else ours
