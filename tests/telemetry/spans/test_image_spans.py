"""Whole spans of images, by hand from ``docs/apis.md#images``."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.text.jsontext import decode_json, encode_json
from telemetry.frames.ending import EndKind
from telemetry.observing.answer_body import MAX_PLAIN_BYTES
from telemetry.observing.exchange import Exchange, Outcome
from telemetry.observing.observer import Observer
from telemetry.observing.open_bodies import OpenBodies
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.rules import SpanRules
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import begin, cut, exchange_frames

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
LONG = PNG[:-1] + "A" * 60_000
ASKED = {"model": "gpt-image-1", "prompt": "a cat", "n": 2, "size": "auto"}
USAGE = {"input_tokens": 14, "output_tokens": 272, "total_tokens": 286}
OUTPUT = "llm.output_messages.0.message"
HEAD = {"created_at": 1, "size": "1024x1024", "background": "opaque", "output_format": "png"}


def event(kind: str, **members: Any) -> bytes:
    value = encode_json({"type": kind, **members})
    return f"event: {kind}\ndata: {value}\n\n".encode()


def partial(index: int = 0) -> bytes:
    return event("image_generation.partial_image", b64_json=LONG, partial_image_index=index, **HEAD)


def completed(image: str = PNG, **members: Any) -> bytes:
    return event("image_generation.completed", b64_json=image, **HEAD, **members)


def draw(*data: bytes, asked: Any = ASKED, status: int = 200, **ending: Any) -> Exchange:
    """The record of a call."""
    body = encode_json(asked).encode()
    frames = exchange_frames(*data, asked=body, status=status, **ending)
    return observe([begin(endpoint="images", path="/v1/images/generations"), *frames[1:]])


def answer(**members: Any) -> bytes:
    return encode_json(members).encode()


def span(exchange: Exchange, **privacy: Any) -> dict[str, Any]:
    rules = SpanRules(shows_genai_content=True, privacy=PrivacySwitches(**privacy))
    return {**build_exchange_attributes(exchange, rules)}


def metadata_of(exchange: Exchange) -> dict[str, Any]:
    value: dict[str, Any] = decode_json(span(exchange)["metadata"])
    return value


def test_a_whole_span() -> None:
    """Prompt, images with the prompt that they were made of, counts; the query of a URL is cut."""
    url = "https://x.test/a.png?sig=secret&se=1"
    data = [{"revised_prompt": "A cat.", "url": url}, {"b64_json": PNG}]
    exchange = draw(answer(created=1, data=data, usage=USAGE))
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    assert exchange.api.span_name == "ImagesResponse"
    told = span(exchange)
    assert decode_json(told.pop("input.value")) == ASKED
    shown = [{"revised_prompt": "A cat.", "url": "https://x.test/a.png?REDACTED"}, data[1]]
    assert decode_json(told.pop("output.value")) == {"created": 1, "data": shown, "usage": USAGE}
    assert decode_json(told.pop("llm.invocation_parameters")) == {
        "model": "gpt-image-1",
        "n": 2,
        "size": "auto",
    }
    assert decode_json(told.pop("metadata")) == {
        "upstream": "default",
        "outcome": "completed",
        "usage_source": "provider",
        "usage_raw": USAGE,
    }
    assert decode_json(told.pop("gen_ai.input.messages")) == [
        {"role": "user", "parts": [{"type": "text", "content": "a cat"}]}
    ]
    assert decode_json(told.pop("gen_ai.output.messages")) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": "A cat."},
                {"type": "uri", "modality": "image", "uri": "https://x.test/a.png?REDACTED"},
                {"type": "blob", "modality": "image", "mime_type": "image/png", "content": PNG},
            ],
        }
    ]
    contents = f"{OUTPUT}.contents"
    assert told == {
        "openinference.span.kind": "LLM",
        "llm.system": "openai",
        "llm.model_name": "gpt-image-1",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "a cat",
        f"{OUTPUT}.role": "assistant",
        f"{contents}.0.message_content.type": "text",
        f"{contents}.0.message_content.text": "A cat.",
        f"{contents}.1.message_content.type": "image",
        f"{contents}.1.message_content.image.image.url": "https://x.test/a.png?REDACTED",
        f"{contents}.2.message_content.type": "image",
        f"{contents}.2.message_content.image.image.url": f"data:image/png;base64,{PNG}",
        "llm.token_count.prompt": 14,
        "llm.token_count.completion": 272,
        "llm.token_count.total": 286,
        "gen_ai.operation.name": "image_generation",
        "gen_ai.provider.name": "openai_compatible",
        "gen_ai.request.model": "gpt-image-1",
        "gen_ai.request.choice.count": 2,
        "gen_ai.output.type": "image",
        "gen_ai.usage.input_tokens": 14,
        "gen_ai.usage.output_tokens": 272,
        "url.path": exchange.path,
        "http.response.status_code": 200,
        "input.mime_type": "application/json",
        "output.mime_type": "application/json",
    }


def test_a_stream_is_one_object_and_what_was_not_finished_is_counted() -> None:
    """The first of these is the first content; a long image has its length and no URL."""
    asked = {**ASKED, "n": 1, "stream": True, "partial_images": 2}
    exchange = draw(partial(0), partial(1), completed(LONG, usage=USAGE), asked=asked)
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    told = span(exchange)
    assert decode_json(told["output.value"]) == {
        "created": 1,
        "size": "1024x1024",
        "background": "opaque",
        "output_format": "png",
        "data": [{"b64_json": f"<{len(LONG)} base64 characters, image/png>"}],
        "usage": USAGE,
    }
    assert told[f"{OUTPUT}.contents.0.message_content.type"] == "image"
    assert f"{OUTPUT}.contents.0.message_content.image.image.url" not in told
    assert told["gen_ai.request.stream"] is True
    assert "gen_ai.request.choice.count" not in told
    metadata = metadata_of(exchange)
    assert (metadata["partial_images"], metadata["chunk_count"]) == (2, 3)
    assert metadata["first_content_ms"] == metadata["ttft_ms"] == 100.0


BROKEN = {"kind": EndKind.UPSTREAM_BROKEN}
GONE = {"kind": EndKind.CLIENT_GONE}
ERROR = event("error", error={"message": "No.", "code": "moderation_blocked", "type": "user"})


@pytest.mark.parametrize(
    ("n", "data", "ending", "outcome", "error_type"),
    [
        (1, [completed()], {}, Outcome.COMPLETED, None),
        (1, [completed()], BROKEN, Outcome.COMPLETED, None),
        (1, [completed()], GONE, Outcome.COMPLETED, None),
        (2, [completed(), partial(), completed()], GONE, Outcome.COMPLETED, None),
        (2, [completed()], {}, Outcome.COMPLETED, None),
        (2, [completed()], BROKEN, Outcome.TRUNCATED, "stream_truncated"),
        (2, [completed()], GONE, Outcome.CLIENT_DISCONNECTED, None),
        (2, [completed(), b"dat"], {}, Outcome.TRUNCATED, "stream_truncated"),
        (2, [completed(), b"dat"], GONE, Outcome.CLIENT_DISCONNECTED, None),
        (2, [completed(), b": bye"], {}, Outcome.COMPLETED, None),
        (1, [completed(), b"dat"], {}, Outcome.COMPLETED, None),
        (1, [partial()], {}, Outcome.TRUNCATED, "stream_truncated"),
        (1, [partial()], GONE, Outcome.CLIENT_DISCONNECTED, None),
        (1, [completed()[:-30]], BROKEN, Outcome.TRUNCATED, "stream_truncated"),
        (1, [partial(), ERROR], {}, Outcome.STREAM_ERROR, "moderation_blocked"),
        (1, [completed(), ERROR], {}, Outcome.STREAM_ERROR, "moderation_blocked"),
        (1, [], {}, Outcome.TRUNCATED, "stream_truncated"),
    ],
)
def test_endings_of_streams(
    n: int, data: list[bytes], ending: dict[str, Any], outcome: Outcome, error_type: str | None
) -> None:
    """As many finished images as were asked for are the end; else the end of the bytes is."""
    exchange = draw(*data, asked={**ASKED, "n": n, "stream": True}, **ending)
    assert (exchange.outcome, exchange.error_type) == (outcome, error_type)


@pytest.mark.parametrize(
    ("body", "kind", "outcome"),
    [
        (answer(data=[]), EndKind.UPSTREAM_EOF, Outcome.COMPLETED),
        (answer(data=[{"url": "x"}])[:-1], EndKind.UPSTREAM_BROKEN, Outcome.TRUNCATED),
        (answer(data=[{"url": "x"}]), EndKind.CLIENT_GONE, Outcome.COMPLETED),
        (answer(error={"message": "No.", "type": "t"}), EndKind.UPSTREAM_EOF, Outcome.STREAM_ERROR),
    ],
)
def test_endings_of_plain_answers(body: bytes, kind: EndKind, outcome: Outcome) -> None:
    """With its list one is whole."""
    assert draw(body, kind=kind).outcome is outcome


def test_a_refusal() -> None:
    """No output, and the provider's words."""
    exchange = draw(answer(error={"message": "Unknown parameter: 'x'."}), status=400)
    assert (exchange.outcome, exchange.error_type) == (Outcome.UPSTREAM_ERROR, "400")
    assert exchange.error_message == "Unknown parameter: 'x'."
    assert not [key for key in span(exchange) if key.startswith(("output", "llm.output"))]


@pytest.mark.parametrize(
    ("item", "form", "url"),
    [
        ({"b64_json": PNG}, None, f"data:image/png;base64,{PNG}"),
        ({"b64_json": "/9j/4AAQ"}, None, "data:image/jpeg;base64,/9j/4AAQ"),
        ({"b64_json": "AAAA"}, None, "data:image/png;base64,AAAA"),
        ({"b64_json": "AAAA"}, "webp", "data:image/webp;base64,AAAA"),
        ({"b64_json": "AAAA", "mime_type": "image/gif"}, "webp", "data:image/gif;base64,AAAA"),
        ({"url": "HTTPS://x/?"}, None, "HTTPS://x/?REDACTED"),
        ({"url": "https://x/a.png#b"}, None, "https://x/a.png#b"),
        ({"url": "data:image/png;base64,AAAA?"}, None, "data:image/png;base64,AAAA?"),
        ({"b64_json": LONG}, None, None),
        ({"b64_json": None, "url": "https://x/a"}, None, "https://x/a"),
    ],
)
def test_where_an_image_is(item: dict[str, Any], form: str | None, url: str | None) -> None:
    """Its own type, the answer's, what its first bytes tell, or PNG."""
    told = span(draw(answer(data=[item], output_format=form)))
    assert told[f"{OUTPUT}.contents.0.message_content.type"] == "image"
    assert told.get(f"{OUTPUT}.contents.0.message_content.image.image.url") == url


def test_what_is_no_answer_is_noted() -> None:
    """And nothing raises, whatever stands in the place of an image."""
    odd = draw(answer(images=[]))
    assert (odd.outcome, odd.anomalies) == (Outcome.NOT_AN_ANSWER, ("foreign_chunk",))
    told = span(draw(answer(data=[7, None, [], {"url": 7, "b64_json": {}}])))
    assert not [key for key in told if key.startswith("llm.output")]
    assert draw(b"data: 7\n\n" + completed(), asked={**ASKED, "n": 1}).anomalies == (
        "foreign_chunk",
    )


@pytest.mark.parametrize(
    ("asked", "is_fault"),
    [
        ({"prompt": "a cat"}, False),
        ({"image": {"bytes": 9}}, False),
        ({"image[]": [{"bytes": 9}], "prompt": "a hat"}, False),
        ({"images": [{"file_id": "f-1"}]}, False),
        ({}, True),
        ({"prompt": ["a cat"]}, True),
        ({"image": {"bytes": 9}, "prompt": 7}, True),
    ],
)
def test_a_request_has_a_prompt_or_an_image(asked: dict[str, Any], *, is_fault: bool) -> None:
    """A variation has no prompt, a generation no image."""
    exchange = draw(answer(data=[]), asked={"model": "m", **asked})
    assert exchange.anomalies == (("request_undecodable",) if is_fault else ())


def test_a_form_reads_as_its_json() -> None:
    """Texts of numbers count; what is known of files is a parameter, the prompt is none."""
    file = {"filename": "a.png", "content_type": "image/png", "bytes": 9}
    asked = {"model": "m", "prompt": "a cat", "n": "3", "stream": "true", "image[]": [file, file]}
    told = span(draw(completed(), asked=asked))
    assert (told["gen_ai.request.choice.count"], told["gen_ai.request.stream"]) == (3, True)
    assert decode_json(told["llm.invocation_parameters"]) == {
        "model": "m",
        "n": "3",
        "stream": "true",
        "image[]": [file, file],
    }
    varied = span(draw(answer(data=[]), asked={"image": file, "n": "x"}))
    assert "llm.input_messages.0.message.role" not in varied
    assert "gen_ai.request.choice.count" not in varied


@pytest.mark.parametrize("switch", ["hide_inputs", "hide_input_text", "hide_input_messages"])
def test_a_hidden_prompt_is_hidden_where_it_was_revised(switch: str) -> None:
    """In the message, in the body, in OpenTelemetry's form; the image stays."""
    exchange = draw(answer(data=[{"revised_prompt": "A cat.", "url": "https://x/a"}]))
    told = span(exchange, **{switch: True})
    assert "a cat" not in str(told).lower()
    assert told[f"{OUTPUT}.contents.0.message_content.image.image.url"] == "https://x/a"
    assert "A cat." in str(span(exchange, hide_llm_tools=False))


def test_50_mb_of_base64_are_not_held() -> None:
    """Of what is observed of them each image is its length, and the counts behind them are read."""
    size, images = 3_000_000, 17
    data = answer(data=[{"b64_json": PNG[:-1] + "A" * size}] * images, usage=USAGE)
    reads = [data[at : at + 65_536] for at in range(0, len(data), 65_536)]
    assert len(data) > MAX_PLAIN_BYTES
    bodies = OpenBodies()
    observer = Observer(bodies=bodies)
    frames = exchange_frames(*reads, asked=encode_json(ASKED).encode())
    most_bytes = 0
    exchange = None
    for frame in [begin(endpoint="images", path="/v1/images/generations"), *frames[1:]]:
        exchange = observer.feed(frame)
        most_bytes = max(most_bytes, bodies.held_bytes)
    assert exchange is not None
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    told = span(exchange)
    note = f"<{size + len(PNG) - 1} base64 characters, image/png>"
    assert decode_json(told["output.value"])["data"] == [{"b64_json": note}] * images
    assert told["llm.token_count.total"] == 286
    assert most_bytes < 1_000_000


@given(st.lists(st.integers(0, 400_000), max_size=12), st.sampled_from([31_990, 32_000, 60_000]))
def test_reads_may_end_anywhere_in_an_image(places: list[int], size: int) -> None:
    """The record is the same."""
    images = [{"b64_json": PNG[:-1] + "A" * (size + 5 * index)} for index in range(6)]
    data = answer(created=1, data=images, usage=USAGE)
    whole = span(draw(data))
    told = decode_json(whole["output.value"])["data"]
    assert decode_json(span(draw(*cut(data, places)))["output.value"])["data"] == told
    for image, shown in zip(images, told, strict=True):
        count = len(image["b64_json"])
        note = {"b64_json": f"<{count} base64 characters, image/png>"}
        assert shown == (note if count > 32_000 else image)


SIGNED = "https://x.test/a.png?X-Amz-Signature=0123456789abcdef&size=1"


@pytest.mark.parametrize(
    "members",
    [
        {"images": [{"image_url": SIGNED}]},
        {"mask": {"image_url": SIGNED}},
        {"mask": SIGNED},
        {"image": SIGNED},
        {"image": {"url": SIGNED}},
        {"image[]": [SIGNED]},
    ],
)
def test_a_signature_in_a_url_of_the_request_is_masked(members: dict[str, Any]) -> None:
    """In the raw value and in the parameters, in whatever form gateways take an image."""
    told = span(draw(answer(data=[]), asked={**ASKED, **members}))
    assert "0123456789abcdef" not in str(told)
    assert "https://x.test/a.png" in told["input.value"]
