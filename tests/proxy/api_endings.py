"""How calls of every API end: a row for each answer that tells its ending.

See ``docs/contract/apis.md#how-an-answer-ends``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.sdk.resources import Resource

from telemetry.spans.recorder import SpanRecorder, build_span_limits
from tests.corpus.built import build_calls
from tests.corpus.oracle import parse_json
from tests.proxy.harness import request_bytes

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange
    from tests.corpus.recordings import Recording

__all__ = (
    "BUILT",
    "ENDINGS",
    "Ended",
    "cut",
    "failed",
    "head_of",
    "ok",
    "refused",
    "request_of",
    "tell",
)


class Ended(NamedTuple):
    """What a span says of its end.

    Attributes:
        outcome: of the metadata.
        error: ``error.type``.
        reason: ``llm.finish_reason``.
        anomalies: but for those of a call's tools and of what it took.
        refused: indexes of the choices that were refused.
    """

    outcome: str = "completed"
    error: str | None = None
    reason: str | None = None
    anomalies: tuple[str, ...] = ()
    refused: tuple[int, ...] = ()

    @property
    def status(self) -> str:
        """The span's own."""
        if self.outcome in {"client_disconnected", "cancelled"}:
            return "UNSET"
        return "OK" if self.outcome == "completed" else "ERROR"


_recorder = SpanRecorder(Resource.get_empty(), build_span_limits())
_OTHER_ANOMALIES = {"tool_not_offered", "no_usage"}


def tell(exchange: Exchange) -> tuple[str, Ended]:
    """The status of the span, and what else it says of its end."""
    span = _recorder.record(exchange)
    assert span is not None
    attributes: dict[str, Any] = dict(span.attributes or {})
    metadata = parse_json(attributes["metadata"])
    anomalies = [one for one in metadata.get("anomalies", ()) if one not in _OTHER_ANOMALIES]
    exceptions = sum(event.name == "exception" for event in span.events)
    assert exceptions == (span.status.status_code.name == "ERROR")
    return span.status.status_code.name, Ended(
        outcome=metadata["outcome"],
        error=attributes.get("error.type"),
        reason=attributes.get("llm.finish_reason"),
        anomalies=tuple(anomalies),
        refused=tuple(metadata.get("refused_choices", ())),
    )


def ok(reason: str | None = None, *anomalies: str, refused: bool = False) -> Ended:
    return Ended(reason=reason, anomalies=anomalies, refused=(0,) if refused else ())


def failed(error: str, reason: str | None = None, *, refused: bool = False) -> Ended:
    return Ended("stream_error", error, reason, refused=(0,) if refused else ())


def refused(status: int) -> Ended:
    return Ended("upstream_error", str(status))


def cut(reason: str | None = None) -> Ended:
    return Ended("truncated", "stream_truncated", reason)


_GEMINI: dict[str, Ended] = {
    "an answer": ok("STOP"),
    "a prompt that was blocked": ok("SAFETY", refused=True),
    "an answer that was blocked": ok("SAFETY", refused=True),
    "a call that was malformed": ok("MALFORMED_FUNCTION_CALL", "bad_tool_arguments"),
    "a call that was not expected": ok("UNEXPECTED_TOOL_CALL", "bad_tool_arguments"),
    "an error in one piece": failed("RESOURCE_EXHAUSTED"),
    "an answer cut by its limit": ok("MAX_TOKENS"),
    "an answer without a reason": ok(None, "no_finish_reason"),
    "content refused by its status": refused(503),
}
_GEMINI_STREAM: dict[str, Ended] = {
    "a thought, words and a call in pieces": ok("STOP"),
    "a thought, words and a call in an array": ok("STOP"),
    "an array of one": ok("STOP"),
    "an array that stays open": cut("STOP"),
    "an array cut inside a chunk, after a reason": cut("STOP"),
    "events cut inside one, after a reason": cut("STOP"),
    "an error at the end of an array": failed("RESOURCE_EXHAUSTED"),
    "an error at the end of events": failed("RESOURCE_EXHAUSTED"),
    "a bare error among events": failed("RESOURCE_EXHAUSTED"),
    "a blocked prompt": ok("SAFETY", refused=True),
    "a blocked prompt in an array": ok("SAFETY", refused=True),
    "a blocked answer": ok("PROHIBITED_CONTENT", refused=True),
    "an answer that was not safe": ok("SAFETY", refused=True),
    "an answer that recites": ok("RECITATION", refused=True),
    "thoughts that took all": ok("MAX_TOKENS"),
    "a malformed call": ok("MALFORMED_FUNCTION_CALL", "bad_tool_arguments"),
    "a call that was not expected": ok("UNEXPECTED_TOOL_CALL", "bad_tool_arguments"),
    "a reason as a number": ok("1"),
    "two candidates, one after the other": ok("STOP"),
    "a gateway that counts thoughts among words": ok("STOP"),
    "no reason in events": cut(),
    "a stream refused by its status": refused(429),
}
ENDINGS: dict[str, dict[str, Ended]] = {
    "audio.speech": {
        **dict.fromkeys(("sound", "sound in events", "Mistral's sound", "Mistral's events"), ok()),
        "an error within sound": failed("moderation_blocked"),
        "sound without an end": cut(),
        "speech refused by its status": refused(401),
        "speech refused as FastAPI does": refused(422),
    },
    "audio.transcriptions": {
        **dict.fromkeys(("words", "plain text", "SRT", "WebVTT"), ok()),
        "words in pieces": ok(),
        "words in pieces, and [DONE]": ok(),
        "words in one piece, pieces asked for": ok(),
        "words of speakers": ok(),
        "Mistral's words in pieces": ok(),
        "an error within words": failed("moderation_blocked"),
        "words without an end": cut(),
        "a recording refused by its status": refused(401),
    },
    "audio.translations": {"words": ok(), "a recording refused by its status": refused(401)},
    "count_tokens": {"a count": ok(), "a count refused by its status": refused(404)},
    "gemini.count": {"a count": ok(), "a count refused by its status": refused(400)},
    "gemini.embed": {
        "a content": ok(),
        "several contents": ok(),
        "embeddings refused by their status": refused(429),
    },
    **dict.fromkeys(("gemini.generate", "code_assist.generate"), _GEMINI),
    **dict.fromkeys(("gemini.stream", "code_assist.stream"), _GEMINI_STREAM),
    "code_assist.count": {"a count": ok(), "a count refused by its status": refused(400)},
    "images": {
        "an image and two before it": ok(),
        "a large image": ok(),
        "an edit": ok(),
        "three images": ok(),
        "two images of three": ok(),
        "an error behind an image": failed("moderation_blocked"),
        "an error before an image": failed("moderation_blocked"),
        "no image": cut(),
        "an address": ok(),
        "images refused by their status": refused(400),
    },
    "messages": {
        "thinking, text and two calls": ok("tool_use"),
        "an error after content": failed("overloaded_error"),
        "an error before content": failed("overloaded_error"),
        "nothing but an error": failed("overloaded_error"),
        "a pause": ok("pause_turn"),
        "a refusal in the middle": ok("refusal", refused=True),
        "cut by its limit": ok("max_tokens"),
        "cut by its window": ok("model_context_window_exceeded"),
        "stopped by a sequence": ok("stop_sequence"),
        "nothing behind the reason": ok("end_turn", "no_message_stop"),
        "no reason": cut(),
        "a gateway's zeros and nulls": ok("end_turn"),
        "counts that change": ok("end_turn"),
        "a plain refusal": ok("refusal", refused=True),
        "a plain pause": ok("pause_turn"),
        "a plain message cut by its limit": ok("max_tokens"),
        "an error in one piece": failed("overloaded_error"),
        "refused by its status": refused(529),
        "a stream of Vertex AI's": ok("tool_use"),
        "a stream of Vertex AI's without a reason": cut(),
        "an error within Vertex AI's": failed("overloaded_error"),
        "nothing of Vertex AI's": cut(),
        "a message of Vertex AI's": ok("end_turn"),
        "refused by Vertex AI": refused(429),
        "a stream refused by Vertex AI": refused(429),
        "refused by the model of Vertex AI": refused(529),
    },
    "moderations": {
        "Mistral's": ok(),
        "OpenAI's, of several": ok(),
        "a moderation refused by its status": refused(429),
    },
    "ollama.chat": {
        "an error after words": failed("stream_error"),
        "nothing but an error line": failed("stream_error"),
        "no reason for the end": ok(None, "no_finish_reason"),
        "a cached prompt": ok(None, "no_finish_reason"),
        "lines cut by their limit": ok("length"),
        "thinking and a call": ok("stop"),
        "a model that is loaded": ok("load"),
        "a model that is unloaded": ok("unload"),
        "lines without an end": cut(),
        "a plain chat": ok("stop"),
        "a plain chat cut by its limit": ok("length"),
        "a chat refused by its status": refused(404),
    },
    "ollama.embed": {"several texts": ok(), "texts refused by their status": refused(400)},
    "ollama.generate": {
        "an error after a text": failed("stream_error"),
        "a context": ok("stop"),
        "a plain text": ok("stop"),
        "a text cut by its limit": ok("length"),
        "a text without an end": cut(),
        "a model that is loaded": ok("load"),
        "a model that is unloaded": ok("unload"),
        "a text refused by its status": refused(404),
    },
    "rerank": {
        **dict.fromkeys(("Jina's", "vLLM's", "vLLM's, as Cohere's second", "TEI's"), ok()),
        **dict.fromkeys(("Jina's error", "Cohere's error"), refused(401)),
        **dict.fromkeys(("FastAPI's error", "TEI's error"), refused(422)),
    },
    "responses": {
        "a refusal": ok("completed", refused=True),
        "a refusal in one piece": ok("completed", refused=True),
        "a failure after content": failed("server_error", "failed", refused=True),
        "a failure before content": failed("server_error", "failed"),
        "a failure in one piece": failed("server_error", "failed"),
        "a failure without words": failed("failed", "failed"),
        "an error event": failed("rate_limit_exceeded", refused=True),
        "an error event and the failure behind it": failed(
            "rate_limit_exceeded", "failed", refused=True
        ),
        "an error event as it was": failed("rate_limit_exceeded", refused=True),
        "no end": cut()._replace(refused=(0,)),
        "cancelled by another call": Ended("cancelled", None, "cancelled"),
        "queued in the background": ok("queued"),
        "begun in the background": ok("in_progress"),
        "an answer that a filter cut": ok("content_filter", refused=True),
        "an answer cut by its limit": ok("max_output_tokens"),
        "an answer cut by its limit, in one piece": ok("max_output_tokens"),
        "a response refused by its status": refused(429),
    },
}

BUILT = {(api, one.id.removeprefix("built: ")): one for api, one in build_calls()}


def head_of(recording: Recording) -> bytes:
    fields = b"".join(b"%b: %b\r\n" % pair for pair in recording.head)
    return b"HTTP/1.1 %d Said\r\n%bTransfer-Encoding: chunked\r\n\r\n" % (recording.status, fields)


def request_of(recording: Recording) -> bytes:
    return request_bytes(
        recording.request, target=recording.target, content_type=recording.content_type
    )
