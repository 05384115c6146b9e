"""``telemetry.recording.pictures``: which pictures of a call are kept beside its span."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.resources import Resource

from codec.text.jsontext import encode_json
from codec.text.pictures import MAX_PICTURE_BYTES
from telemetry.privacy.redaction import Redaction
from telemetry.privacy.switches import PrivacySwitches
from telemetry.reading.stored_calls import open_calls
from telemetry.recording import pictures
from telemetry.service import TelemetryService
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.store.rows import CallPicture, LeftOut
from telemetry.store.store import Store
from tests.telemetry.tap_frames import ANSWER, START_NS, begin, exchange_frames, identity

if TYPE_CHECKING:
    from pathlib import Path

HEADS = {
    "image/png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x00\x00\x00\x00WEBPVP8 ",
}
PNG = HEADS["image/png"] + os.urandom(40_000)
OTHER = HEADS["image/jpeg"] + os.urandom(40_000)
SECRET = "Zebra4Canary"


def url_of(data: bytes, mime_type: str = "image/png") -> str:
    """A ``data:`` URL of a picture."""
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def chat(*urls: str, role: str = "user") -> dict[str, Any]:
    """A request of a chat: a text, then images."""
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    content = [{"type": "text", "text": "What is it?"}, *images]
    return {"model": "m-1", "messages": [{"role": role, "content": content}]}


ASKED: dict[str, tuple[str, str, Any, Any]] = {
    "chat": ("chat.completions", "/v1/chat/completions", chat(url_of(PNG)), (0, 1)),
    "messages": (
        "messages",
        "/v1/messages",
        {
            "model": "m",
            "max_tokens": 1,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image",
                            "source": {
                                "type": "base64",
                                "media_type": "image/png",
                                "data": base64.b64encode(PNG).decode(),
                            },
                        }
                    ],
                }
            ],
        },
        (0, 0),
    ),
    "a tool's screenshot": (
        "messages",
        "/v1/messages",
        {
            "model": "m",
            "max_tokens": 1,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "t",
                            "content": [
                                {
                                    "type": "image",
                                    "source": {
                                        "type": "base64",
                                        "media_type": "image/png",
                                        "data": base64.b64encode(PNG).decode(),
                                    },
                                }
                            ],
                        }
                    ],
                }
            ],
        },
        (0, 1),
    ),
    "gemini": (
        "gemini.generate",
        "/v1beta/models/m:generateContent",
        {
            "contents": [
                {
                    "role": "user",
                    "parts": [
                        {"text": "What is it?"},
                        {
                            "inlineData": {
                                "mimeType": "image/png",
                                "data": base64.urlsafe_b64encode(PNG).decode(),
                            }
                        },
                    ],
                }
            ]
        },
        (0, 1),
    ),
    "responses": (
        "responses",
        "/v1/responses",
        {
            "model": "m",
            "input": [
                {
                    "role": "user",
                    "content": [{"type": "input_image", "image_url": url_of(PNG)}],
                },
            ],
        },
        (0, 0),
    ),
    "a function's image": (
        "responses",
        "/v1/responses",
        {
            "model": "m",
            "input": [
                {
                    "type": "function_call_output",
                    "call_id": "c",
                    "output": [{"type": "input_image", "image_url": url_of(PNG)}],
                },
            ],
        },
        (0, 1),
    ),
    "ollama": (
        "ollama.chat",
        "/api/chat",
        {
            "model": "m",
            "messages": [
                {
                    "role": "user",
                    "content": "What is it?",
                    "images": [base64.b64encode(PNG).decode()],
                }
            ],
        },
        (0, 1),
    ),
}
"""By a name: the endpoint, its path, a request with one picture, and where the picture stands."""


class Recorded:
    """A store of calls that were recorded by these rules."""

    def __init__(self, path: Path, rules: SpanRules | None = None) -> None:
        self.path = path
        self._rules = rules or SpanRules()

    def record(
        self,
        asked: Any,
        *answer: bytes,
        number: int = 1,
        endpoint: str = "chat.completions",
        path: str = "/v1/chat/completions",
        request_headers: tuple[tuple[str, str], ...] = (),
    ) -> list[CallPicture]:
        """Record a call, and return its pictures as they are read."""
        body = encode_json(asked).encode()
        frames = exchange_frames(*(answer or (ANSWER,)), number=number, asked=body)
        first = begin(number, endpoint=endpoint, path=path, headers=request_headers)
        with Store.open(self.path) as store:
            service = TelemetryService(
                SpanRecorder(Resource.get_empty(), build_span_limits(), self._rules),
                store,
                rules=self._rules,
                now_ns=lambda: START_NS,
            )
            for frame in (first, *frames[1:]):
                service.feed(frame)
            service.commit()
            assert store.counts().pending == number
            assert service.counts.failed == 0
        with open_calls(self.path) as calls:
            stored = calls.one(identity(number).span_id)
            assert stored is not None
            self.seq, self.span = stored.summary.seq, stored.span
            return calls.pictures(self.seq)

    def holds(self, data: bytes) -> bool:
        """Whether any piece of these bytes, or of their base64, is in the files of the store."""
        files = (file for file in self.path.parent.iterdir() if file.suffix != ".reserve")
        written = b"".join(file.read_bytes() for file in files if file.is_file())
        return any(
            text[at : at + 32] in written
            for text in (data, base64.b64encode(data))
            for at in range(1_000, len(data), 500)
        )

    def content(self, picture: CallPicture) -> bytes | None:
        """The bytes of a picture of the last call."""
        assert picture.digest is not None
        with open_calls(self.path) as calls:
            return calls.picture(self.seq, picture.digest)


@pytest.mark.parametrize("name", ASKED)
def test_a_picture_that_was_asked_is_kept_in_its_place(path: Path, name: str) -> None:
    """Its bytes are those that the client sent, in whichever members of an API they came."""
    endpoint, target, asked, place = ASKED[name]
    recorded = Recorded(path)
    [picture] = recorded.record(asked, endpoint=endpoint, path=target)
    assert (picture.is_answer, picture.message, picture.part) == (False, *place)
    assert (picture.type, picture.size_bytes, picture.left_out) == ("image/png", len(PNG), None)
    assert recorded.content(picture) == PNG


@pytest.mark.parametrize("kind", HEADS)
def test_the_first_bytes_say_what_a_picture_is(path: Path, kind: str) -> None:
    """Whatever the client calls it."""
    data = HEADS[kind] + os.urandom(40_000)
    [picture] = Recorded(path).record(chat(url_of(data, "image/svg+xml")))
    assert (picture.type, picture.left_out) == (kind, None)


def test_what_is_no_picture_is_left_out(path: Path) -> None:
    """An SVG is a program, and anybody may call anything a PNG."""
    svg = b"<svg onload='alert(1)'>" + os.urandom(40_000) + b"</svg>"
    found = Recorded(path).record(chat(url_of(svg, "image/svg+xml"), url_of(svg)))
    assert [(one.type, one.left_out) for one in found] == [(None, LeftOut.TYPE)] * 2


def test_the_exported_span_is_as_it_was(path: Path, tmp_path: Path) -> None:
    """With and without pictures the bytes are the same."""
    one, other = Recorded(path), Recorded(tmp_path / "o.db", SpanRules(pictures=False))
    [kept], [left_out] = (it.record(chat(url_of(PNG))) for it in (one, other))
    assert (kept.left_out, left_out.left_out) == (None, LeftOut.OFF)
    assert left_out.digest is None
    assert one.span == other.span


def test_a_short_picture_is_in_the_span_alone(path: Path) -> None:
    """It is not kept twice."""
    assert Recorded(path).record(chat(url_of(HEADS["image/gif"] + bytes(100)))) == []


def test_an_address_is_no_picture(path: Path) -> None:
    """Nothing is fetched."""
    assert Recorded(path).record(chat("https://example.com/" + "a" * 40_000)) == []


@pytest.mark.parametrize(
    "switches",
    [
        {"hide_inputs": True},
        {"hide_input_messages": True},
        {"hide_input_text": True},
        {"hide_input_images": True},
    ],
)
def test_a_switch_that_hides_it_keeps_nothing(path: Path, switches: dict[str, bool]) -> None:
    """Neither the picture nor its place."""
    rules = SpanRules(privacy=PrivacySwitches(**switches))
    recorded = Recorded(path, rules)
    assert recorded.record(chat(url_of(PNG))) == []
    assert not recorded.holds(PNG)


def test_a_client_that_wants_no_content_gets_none_kept(path: Path) -> None:
    """``x-spantap-content: off`` is for this call alone."""
    recorded = Recorded(path)
    asked = chat(url_of(PNG))
    assert recorded.record(asked, request_headers=(("x-spantap-content", "off"),)) == []
    assert not recorded.holds(PNG)
    assert len(recorded.record(asked, number=2)) == 1
    assert recorded.holds(PNG)


def test_a_pattern_that_changes_it_keeps_nothing(path: Path) -> None:
    """Of the other picture it changes nothing."""
    data = base64.b64decode(SECRET) + os.urandom(40_000)
    shown = HEADS["image/gif"] + data
    rules = SpanRules(redaction=Redaction({"canary": SECRET}))
    recorded = Recorded(path, rules)
    [picture] = recorded.record(chat(url_of(shown), url_of(PNG)))
    assert (picture.part, picture.type) == (2, "image/png")
    assert (recorded.holds(shown), recorded.holds(PNG)) == (False, True)


def test_a_pattern_is_looked_for_in_the_bytes_of_a_picture(path: Path) -> None:
    """A file may have a text, such as the one in a PNG's chunk, that its base64 does not show."""
    shown = HEADS["image/png"] + b"tEXtComment\0" + SECRET.encode() + os.urandom(40_000)
    recorded = Recorded(path, SpanRules(redaction=Redaction({"canary": SECRET})))
    [picture] = recorded.record(chat(url_of(shown), url_of(OTHER), url_of(shown)))
    assert (picture.part, picture.left_out) == (2, None)
    assert (recorded.holds(shown), recorded.holds(OTHER)) == (False, True)


def test_white_space_before_the_base64_hides_no_type(path: Path) -> None:
    """A line may begin behind the head of a URL."""
    url = url_of(PNG).replace(",", ",\r\n" + " " * 20)
    [picture] = Recorded(path).record(chat(url))
    assert (picture.type, picture.left_out) == ("image/png", None)


def test_the_users_limit_of_images_bounds_the_store_too(path: Path) -> None:
    """Its default bounds only spans."""
    privacy = PrivacySwitches(base64_image_max_length=50_000, limits_images=True)
    [picture] = Recorded(path, SpanRules(privacy=privacy)).record(chat(url_of(PNG)))
    assert (picture.digest, picture.left_out) == (None, LeftOut.IMAGE_LIMIT)
    assert "OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH" in LeftOut.IMAGE_LIMIT.words


def test_a_picture_over_the_limit_is_left_out(path: Path) -> None:
    """One of the limit is kept."""
    fitting = HEADS["image/png"] + bytes(MAX_PICTURE_BYTES - 16)
    found = Recorded(path).record(chat(url_of(fitting), url_of(fitting + b"."), url_of(PNG)))
    assert [one.left_out for one in found] == [None, LeftOut.TOO_LARGE, None]
    assert found[1].size_bytes > MAX_PICTURE_BYTES


def test_limits_of_a_call_leave_out_the_oldest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest message comes first; the same picture counts once."""
    monkeypatch.setattr(pictures, "MAX_CALL_BYTES", 50_000)
    monkeypatch.setattr(pictures, "MAX_CALL_PICTURES", 3)
    messages = [*chat(url_of(OTHER))["messages"], *chat(url_of(PNG), url_of(PNG))["messages"]]
    found = Recorded(path).record({"model": "m-1", "messages": [*messages, *messages]})
    assert [(one.message, one.part, one.left_out) for one in found] == [
        (2, 1, LeftOut.NO_MEMORY),
        (3, 1, None),
        (3, 2, None),
    ]


def test_fifty_calls_of_a_conversation_keep_one_picture_of_two_megabytes(path: Path) -> None:
    """They add 3 MB to the store at most, spans included."""
    data = HEADS["image/png"] + os.urandom(2_000_000)
    messages = chat(url_of(data))["messages"]
    recorded = Recorded(path)
    recorded.record(chat(), number=1)
    with Store.open(path) as store:
        before = store.compact(gives_back=False).size_bytes
    for number in range(2, 52):
        messages += [
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": f"Question {number}?"},
        ]
        assert len(recorded.record({"model": "m-1", "messages": messages}, number=number)) == 1
    with Store.open(path) as store:
        assert store.compact(gives_back=False).size_bytes - before <= 3_000_000


def made(kind: str, image: str, **members: Any) -> bytes:
    """An event of a stream of images."""
    event = {"type": f"image_generation.{kind}", "b64_json": image, **members}
    return f"data: {encode_json(event)}\n\n".encode()


def split(data: bytes) -> list[bytes]:
    """Reads as a network cuts them."""
    return [data[at : at + 60_000] for at in range(0, len(data), 60_000)]


def base64_of(data: bytes) -> str:
    """The base64 of some bytes."""
    return base64.b64encode(data).decode()


SAME = [HEADS["image/png"] + os.urandom(200_000) for _ in range(2)]
"""Two pictures of one size."""

ITEM = {"type": "image_generation_call", "id": "i", "status": "completed"}


def respond(*pictures: bytes) -> dict[str, Any]:
    """A response whose items are pictures."""
    output = [
        {**ITEM, "id": f"i{at}", "result": base64_of(data)} for at, data in enumerate(pictures)
    ]
    return {"id": "r", "object": "response", "model": "m", "status": "completed", "output": output}


def stream_response(*pictures: bytes) -> bytes:
    """The same as events: each item, after an unfinished picture, and all of them at the end."""
    whole = respond(*pictures)
    events: list[dict[str, Any]] = []
    for at, item in enumerate(whole["output"]):
        partial = {"type": "response.image_generation_call.partial_image", "output_index": at}
        events.append({**partial, "partial_image_b64": base64_of(OTHER)})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return "".join(f"data: {encode_json(event)}\n\n" for event in events).encode()


def gemini(*pictures: bytes) -> dict[str, Any]:
    """An answer of Gemini's with pictures, in the alphabet of URLs."""
    parts = [
        {"inlineData": {"mimeType": "image/png", "data": base64.urlsafe_b64encode(one).decode()}}
        for one in pictures
    ]
    content = {"role": "model", "parts": parts}
    return {"candidates": [{"content": content, "finishReason": "STOP"}], "modelVersion": "m"}


DRAW = ("images", "/v1/images/generations", {"model": "m", "prompt": "a cat", "n": 2})
RESPOND = ("responses", "/v1/responses", {"model": "m", "input": "Draw."})
GEMINI: tuple[str, str, Any] = (
    "gemini.generate",
    "/v1beta/models/m:generateContent",
    {"contents": []},
)

MADE: dict[str, tuple[tuple[str, str, Any], bytes]] = {
    "images": (
        DRAW,
        encode_json(
            {"created": 1, "data": [{"b64_json": base64_of(one)} for one in SAME]}
        ).encode(),
    ),
    "images, streamed": (
        (DRAW[0], DRAW[1], {**DRAW[2], "stream": True}),
        b"".join(
            [
                made("partial_image", base64_of(OTHER), partial_image_index=0),
                *(made("completed", base64_of(one)) for one in SAME),
            ]
        ),
    ),
    "responses": (RESPOND, encode_json(respond(*SAME)).encode()),
    "responses, streamed": (
        (RESPOND[0], RESPOND[1], {**RESPOND[2], "stream": True}),
        stream_response(*SAME),
    ),
    "gemini": (GEMINI, encode_json(gemini(*SAME)).encode()),
    "gemini, streamed": (
        ("gemini.stream", "/v1beta/models/m:streamGenerateContent", GEMINI[2]),
        f"data: {encode_json(gemini(*SAME))}\r\n\r\n".encode(),
    ),
    "gemini, an array": (
        ("gemini.stream", "/v1beta/models/m:streamGenerateContent", GEMINI[2]),
        f"[{encode_json(gemini(*SAME))}]".encode(),
    ),
    "a chat": (
        ("chat.completions", "/v1/chat/completions", chat()),
        ANSWER.replace(
            b'"content":"Hello"',
            b'"content":"Here.","images":'
            + encode_json(
                [{"type": "image_url", "image_url": {"url": url_of(one)}} for one in SAME]
            ).encode(),
        ),
    ),
}
"""By a name: an endpoint, its path and a request, and an answer with :data:`SAME`."""


@pytest.mark.parametrize("name", MADE)
def test_pictures_that_were_made_are_kept_in_their_order(path: Path, name: str) -> None:
    """Whole or streamed; unfinished ones are not kept, nor is a picture kept twice."""
    (endpoint, target, asked), answer = MADE[name]
    recorded = Recorded(path)
    found = recorded.record(asked, *split(answer), endpoint=endpoint, path=target)
    assert [one.left_out for one in found] == [None, None]
    assert all(one.is_answer for one in found)
    assert [recorded.content(one) for one in found] == SAME
    with Store.open(path) as store, store._file.use() as connection:
        assert connection.execute("SELECT count(*) FROM pictures").fetchone() == (2,)


@pytest.mark.parametrize("name", MADE)
def test_the_exported_span_of_an_answer_is_as_it_was(path: Path, tmp_path: Path, name: str) -> None:
    """Nothing that is kept beside it changes a byte."""
    (endpoint, target, asked), answer = MADE[name]
    one, other = Recorded(path), Recorded(tmp_path / "o.db", SpanRules(pictures=False))
    one.record(asked, *split(answer), endpoint=endpoint, path=target)
    found = other.record(asked, *split(answer), endpoint=endpoint, path=target)
    assert [it.left_out for it in found] == [LeftOut.OFF] * 2
    assert one.span == other.span


@pytest.mark.parametrize(
    "switches",
    [
        {"hide_outputs": True},
        {"hide_output_messages": True},
        {"hide_output_text": True},
        {"hide_input_images": True},
    ],
)
@pytest.mark.parametrize("name", ["images", "responses, streamed", "a chat"])
def test_a_switch_that_hides_answers_keeps_none_of_them(
    path: Path, switches: dict[str, bool], name: str
) -> None:
    """An edited picture shows the one that was sent, so hidden images hide both."""
    (endpoint, target, asked), answer = MADE[name]
    rules = SpanRules(privacy=PrivacySwitches(**switches))
    recorded = Recorded(path, rules)
    assert recorded.record(asked, *split(answer), endpoint=endpoint, path=target) == []
    assert not any(map(recorded.holds, SAME))


def test_a_made_picture_over_the_limit_is_left_out(path: Path) -> None:
    """Its size is known from the words that stand for it."""
    endpoint, target, asked = DRAW
    large = HEADS["image/png"] + bytes(MAX_PICTURE_BYTES)
    answer = encode_json({"created": 1, "data": [{"b64_json": base64_of(large)}]}).encode()
    recorded = Recorded(path)
    [found] = recorded.record(asked, *split(answer), endpoint=endpoint, path=target)
    assert (found.digest, found.left_out) == (None, LeftOut.TOO_LARGE)
    assert found.size_bytes > MAX_PICTURE_BYTES


def test_a_defect_costs_the_pictures_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The span is recorded, with its content."""

    def fail(_: bytes) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(pictures, "find_picture_type", fail)
    recorded = Recorded(path)
    assert recorded.record(chat(url_of(PNG))) == []
    assert b"What is it?" in recorded.span


def test_a_row_says_when_its_pictures_are_given_up() -> None:
    """The words of each reason name a setting."""
    for one in LeftOut:
        assert "SPANTAP_" in one.words or "OPENINFERENCE_" in one.words
    picture = CallPicture(is_answer=False, message=0, part=0, data=b"1")
    assert replace(picture, data=None, left_out=LeftOut.NO_MEMORY).data is None
