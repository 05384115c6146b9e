"""Calls of every API with a fault in the request and one in the answer, the same in every run.

A right request, and the right answer that the API's own player gives to it, are spoiled: a member
of another type anywhere, odd bytes, a cut, noise, lines that are lost, doubled or change places.
Chats have faults of their own (:mod:`tests.faults.malformed_bodies`,
:mod:`tests.faults.malformed_streams`).
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from codec.apis.table import get_api
from codec.dialects import find_dialect
from proxy.demo.script import MODEL, REASONING_MODEL, write_script
from tests.faults.malformed_bodies import ODD_BYTES, ODD_NUMBERS, encode, odd_value, spoil
from tests.faults.malformed_streams import choose_frame
from tests.proxy.harness import USAGE_EVENT

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("SAMPLES", "MalformedCall", "Sample", "make_api_call")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A right request.

    Attributes:
        path: with a query where it has one.
        body: its JSON, or the fields of its form.
        file: a form has this file, too.
    """

    path: str
    body: dict[str, Any]
    file: bytes = b""


_TOOL = {"name": "f", "description": "does", "parameters": {"type": "object", "properties": {}}}
_TURNS = [{"role": "user", "content": "Ahoy?"}, {"role": "assistant", "content": "Ahoy!"}]
_MESSAGES = [*_TURNS, {"role": "user", "content": "And now?"}]
_CONTENTS = [{"role": "user", "parts": [{"text": "Ahoy?"}]}]
_ENCLOSED = {"model": MODEL, "project": "p", "request": {"contents": _CONTENTS}}
_CHAT = {"model": REASONING_MODEL, "messages": _MESSAGES}
_FILE = b"\xff\xf3\r\n--form\x00" * 100
_FORM_TYPE = b"multipart/form-data; boundary=form-1"
_JSON_TYPE = b"application/json"
_ODD_TYPES = (b"multipart/form-data", b"multipart/form-data; boundary=form-2", b"text/plain")

SAMPLES: Final = {
    "completions": Sample(
        path="/v1/completions",
        body={"model": MODEL, "prompt": ["Ahoy?", "And now?"], "n": 2, "logprobs": 1},
    ),
    "responses": Sample(
        path="/v1/responses",
        body={
            "model": REASONING_MODEL,
            "instructions": "Be brief.",
            "input": _MESSAGES,
            "tools": [{"type": "function", **_TOOL}],
        },
    ),
    "messages": Sample(
        path="/v1/messages",
        body={
            **_CHAT,
            "max_tokens": 100,
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        },
    ),
    "count_tokens": Sample(path="/v1/messages/count_tokens", body=_CHAT),
    "embeddings": Sample(path="/v1/embeddings", body={"model": MODEL, "input": ["a", "b"]}),
    "gemini.generate": Sample(
        path=f"/v1beta/models/{REASONING_MODEL}:generateContent",
        body={"contents": _CONTENTS, "tools": [{"functionDeclarations": [_TOOL]}]},
    ),
    "gemini.stream": Sample(
        path=f"/v1beta/models/{REASONING_MODEL}:streamGenerateContent",
        body={"contents": _CONTENTS, "generationConfig": {"temperature": 1}},
    ),
    "gemini.embed": Sample(
        path=f"/v1beta/models/{MODEL}:batchEmbedContents",
        body={"requests": [{"content": {"parts": [{"text": "a"}]}}]},
    ),
    "gemini.count": Sample(
        path=f"/v1beta/models/{MODEL}:countTokens", body={"contents": _CONTENTS}
    ),
    **{
        f"code_assist.{name}": Sample(path=f"/v1internal:{method}", body=_ENCLOSED)
        for name, method in (
            ("generate", "generateContent"),
            ("stream", "streamGenerateContent"),
            ("count", "countTokens"),
        )
    },
    "ollama.chat": Sample(
        path="/api/chat", body={**_CHAT, "tools": [{"type": "function", "function": _TOOL}]}
    ),
    "ollama.generate": Sample(path="/api/generate", body={"model": MODEL, "prompt": "Ahoy?"}),
    "ollama.embed": Sample(path="/api/embed", body={"model": MODEL, "input": ["a", "b"]}),
    "rerank": Sample(
        path="/v1/rerank",
        body={"model": MODEL, "query": "a", "documents": ["a b", {"text": "c"}], "top_n": 2},
    ),
    "moderations": Sample(path="/v1/moderations", body={"model": MODEL, "input": ["a", "b"]}),
    "images": Sample(
        path="/v1/images/edits",
        body={"model": MODEL, "prompt": "a hat", "n": "2", "partial_images": "1"},
        file=_FILE,
    ),
    "audio.speech": Sample(
        path="/v1/audio/speech", body={"model": MODEL, "input": "Ahoy!", "voice": "alloy"}
    ),
    "audio.transcriptions": Sample(
        path="/v1/audio/transcriptions", body={"model": MODEL, "prompt": "Ahoy"}, file=_FILE
    ),
    "audio.translations": Sample(
        path="/v1/audio/translations",
        body={"model": MODEL, "response_format": "srt"},
        file=_FILE,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedCall:
    """A request and its answer.

    Attributes:
        target: of the request, from the API's own path on.
        request: its body.
        content_type: of the request.
        answer: what the upstream writes, piece by piece.
        asked_answer: the same to a request that asks for a stream's usage.
        closes: only the end of the connection ends the answer, well or not.
    """

    target: str
    request: bytes
    content_type: bytes
    answer: tuple[bytes, ...]
    asked_answer: tuple[bytes, ...]
    closes: bool


def make_api_call(name: str, number: int) -> MalformedCall:
    """A call of the API of this name; each number makes one of its own."""
    dice = random.Random(f"{name} {number}")
    sample, api = SAMPLES[name], get_api(name)
    is_stream, query = dice.random() < 0.6, dice.choice(("", "?alt=sse"))
    request = _write(sample, is_stream=is_stream)
    if dice.random() < 0.5:
        request = dice.choice(_SPOILERS)(dice, request)
    kind, said = _play(name, is_stream=is_stream, query=query)
    if dice.random() < 0.9:
        said = dice.choice(_SPOILERS)(dice, said)
    types = [f"Content-Type: {one}\r\n".encode() for one in (kind, kind, kind, "text/plain")]
    frame = choose_frame(dice, types=(*types, b""))
    content_type = _FORM_TYPE if sample.file else _JSON_TYPE
    if dice.random() < 0.1:
        content_type = dice.choice(_ODD_TYPES)
    return MalformedCall(
        target=sample.path + query,
        request=request,
        content_type=content_type,
        answer=frame.write(said),
        asked_answer=frame.write(_add_usage(dice, said) if api.usage_option else said),
        closes=frame.closes,
    )


def _write(sample: Sample, *, is_stream: bool) -> bytes:
    """The right request, as JSON or as a form."""
    if not sample.file:
        return encode({**sample.body, "stream": is_stream})
    fields = {**sample.body, "stream": str(is_stream).lower()}
    head = b'--form-1\r\nContent-Disposition: form-data; name="%b"'
    file_head = head % b"file" + b'; filename="a.bin"\r\nContent-Type: image/png'
    parts = [b"%b\r\n\r\n%b\r\n" % (head % n.encode(), v.encode()) for n, v in fields.items()]
    parts.insert(1, b"%b\r\n\r\n%b\r\n" % (file_head, sample.file))
    return b"".join(parts) + b"--form-1--\r\n"


@cache
def _play(name: str, *, is_stream: bool, query: str) -> tuple[str, bytes]:
    """The content type and the body of a right answer."""
    api = get_api(name)
    assert api.open_player is not None
    sample = SAMPLES[name]
    asked = api.asked(sample.body, sample.path)
    script = write_script(asked, answer_id="1", created=1_795_456_987)
    script = replace(script, query=query.lstrip("?"))
    performance = api.open_player().play(asked, script, find_dialect("openai"))
    if not is_stream:
        return getattr(performance, "plain_type", "application/json"), performance.whole()
    return performance.content_type, b"".join(map(b"".join, performance.stream()))


def _add_usage(dice: random.Random, data: bytes) -> bytes:
    """Tell the usage between two events: only there nobody sees it who did not ask for it."""
    ends = [found.end() for found in re.finditer(rb"\n\n", data)]
    if not ends:
        return data
    place = dice.choice(ends)
    return data[:place] + USAGE_EVENT + data[place:]


def _cut(dice: random.Random, data: bytes) -> bytes:
    return data[: dice.randrange(len(data))]


def _insert(dice: random.Random, data: bytes) -> bytes:
    place = dice.randrange(len(data))
    return data[:place] + dice.choice((*ODD_BYTES, *ODD_NUMBERS)) + data[place:]


def _mistype(dice: random.Random, data: bytes) -> bytes:
    """Some JSON value anywhere in it becomes one of another type; of a stream in some lines."""
    lines = data.split(b"\n")
    for at in dice.sample(range(len(lines)), k=min(len(lines), 3)):
        head, brace, rest = lines[at].partition(b"{")
        try:
            value = json.loads(brace + rest)  # noqa: TID251 - a line that is not JSON stays
        except ValueError:
            continue
        _replace_somewhere(dice, value)
        lines[at] = head + encode(value)
    return b"\n".join(lines)


def _replace_somewhere(dice: random.Random, value: Any) -> None:
    """Put an odd value in the place of one that is found on the way down, in place."""
    while isinstance(value, dict | list) and value:
        key = dice.choice(sorted(value) if isinstance(value, dict) else range(len(value)))
        if not isinstance(value[key], dict | list) or not value[key] or dice.random() < 0.3:
            value[key] = odd_value(dice)
            return
        value = value[key]


def _shuffle(dice: random.Random, data: bytes) -> bytes:
    """Lines are lost, doubled, or change places."""
    lines = data.splitlines(keepends=True)
    for _ in range(dice.randrange(1, 4)):
        one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
        lines[one] = dice.choice((b"", lines[one] * 2, lines[other]))
    return b"".join(lines)


def _nest(dice: random.Random, data: bytes) -> bytes:
    """A value that is deeper than anybody writes."""
    depth = dice.choice((400, 600, 20_000))
    return data.replace(b":{", b':{"deep":' + b"[" * depth + b"]" * depth + b",", 1)


_SPOILERS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(_cut, _insert, _mistype, _mistype, _mistype, _shuffle, _nest, spoil),
    lambda dice, _: dice.randbytes(dice.randrange(3000)),
    lambda dice, _: encode(odd_value(dice)) if dice.random() < 0.5 else b"",
)
