"""The proxy's span of Gemini says what the client's own instrumentation says.

The real ``google-genai`` SDK with OpenInference's real instrumentation makes the recorded calls
anew, through the proxy: each leaves two spans. Every difference has a reason in :data:`ALLOWED`.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import json
import re
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from google import genai
from google.genai import errors, types
from openinference.instrumentation.google_genai import GoogleGenAIInstrumentor

from tests.corpus.built import build_calls
from tests.corpus.oracle import parse_json
from tests.corpus.recordings import NEEDS_RECORDINGS, load_all, load_gemini, load_gemini_streams
from tests.differential.chance_of_contents import draw_contents
from tests.differential.comparison import ABSENT
from tests.differential.recorded import (
    OF_MODELS,
    Allowed,
    RecordedPair,
    count_noticed,
    failed,
    find_faults,
    find_needed,
    is_extra,
    is_unread,
)
from tests.differential.sdk_stage import Sdk, run_recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from telemetry.spans.otlp.decoding import DecodedSpan
    from tests.corpus.recordings import Recording
    from tests.differential.comparison import Difference

pytestmark = [
    *NEEDS_RECORDINGS,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]

DRAWN = 150
"""Calls that are drawn by chance."""

CALLS = 458 + 3 + DRAWN
"""Those that this SDK can make: not those with fields of an API that is no more."""

READ = 430
"""Of these, those whose answers it can read: no lists, and no numbers for words."""

_OF_CONFIG = ("systemInstruction", "tools", "toolConfig", "safetySettings", "cachedContent")
_HUMP = re.compile(r"_([a-z])")
_AS_JSON = re.compile(r".*(function\.arguments|message\.content|message_content\.text)")
_BODIES = ("input.value", "output.value", "llm.invocation_parameters")


@contextlib.contextmanager
def _open_clients(url: str) -> Iterator[tuple[Any, Any]]:
    options = types.HttpOptions(base_url=url)
    with (
        genai.Client(api_key="k", http_options=options) as gemini,
        genai.Client(vertexai=True, api_key="k", http_options=options) as vertex,
    ):
        yield gemini.models, vertex.models


def _make(clients: tuple[Any, Any], recording: Recording) -> None:
    models = clients[b"/publishers/" in recording.target]
    asked = _camel(parse_json(recording.request))
    if b"mbedContent" in recording.target:
        contents = [one["content"] for one in asked.get("requests", ())] or [asked["content"]]
        models.embed_content(model="embedding-m", contents=contents)
        return
    config = asked.get("generationConfig") or {}
    config |= {name: asked[name] for name in _OF_CONFIG if name in asked}
    found = re.search(rb"/models/([^/:]+):", recording.target)
    call = {"model": found[1].decode() if found else "m-1", "contents": asked["contents"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it will not have in the next version
        if b":stream" in recording.target:
            for _ in models.generate_content_stream(**call, config=config):
                pass
        else:
            models.generate_content(**call, config=config)


SDK = Sdk(
    provider="google",
    instrumentor=GoogleGenAIInstrumentor,
    open_client=_open_clients,
    make=_make,
    errors=(errors.APIError, errors.UnknownApiResponseError, AttributeError, ValueError),
)
"""An ``AttributeError`` is what the SDK raises of a number where it wants a word."""


def _is_cut(pair: RecordedPair, difference: Difference) -> bool:
    return pair.theirs.status == "OK" and failed(pair, difference)


def _is_refused_stream(pair: RecordedPair, difference: Difference) -> bool:
    return is_extra(pair, difference) and pair.ours.status == "ERROR" and _is_streamed(pair)


def _is_streamed(pair: RecordedPair) -> bool:
    return pair.ours.name.endswith("Stream")


def _has(*words: str) -> Callable[[RecordedPair, Difference], bool]:
    """The exchange has one of these."""
    return lambda pair, _: any(
        word.encode() in pair.recording.text + pair.recording.request for word in words
    )


def _is_extra_of(*words: str) -> Callable[[RecordedPair, Difference], bool]:
    has = _has(*words)
    return lambda pair, difference: is_extra(pair, difference) and has(pair, difference)


def _is_joined(pair: RecordedPair, _: Difference | None = None) -> bool:
    words = (b"thoughtSignature", b"partialArgs", b"toolCall")
    return _is_streamed(pair) and any(word in pair.recording.text for word in words)


def _has_several_reasons(pair: RecordedPair, difference: Difference) -> bool:
    words = pair.ours.attributes.get("gen_ai.response.finish_reasons") or [None]
    ends = (difference.ours, difference.theirs)
    return _is_streamed(pair) and (words[0], words[-1]) == ends


def _is_rated_again(pair: RecordedPair, _: Difference) -> bool:
    return _is_streamed(pair) and pair.recording.text.count(b"safetyRatings") > 1


def _is_same_base64(_: RecordedPair, difference: Difference) -> bool:
    return _to_plain(difference.ours) == _to_plain(difference.theirs)


def _to_plain(base64: Any) -> str:
    return str(base64).translate(str.maketrans("-_", "+/"))


def _is_same_time(_: RecordedPair, difference: Difference) -> bool:
    times = [str(one)[:19].replace(" ", "T") for one in (difference.ours, difference.theirs)]
    return times[0] == times[1]


def _is_long(_: RecordedPair, difference: Difference) -> bool:
    return difference.ours is ABSENT and len(str(difference.theirs)) > 4_096


def _is_empty(_: RecordedPair, difference: Difference) -> bool:
    return (difference.theirs is ABSENT and difference.ours in ("{}", {})) or (
        difference.ours is ABSENT and difference.theirs == []
    )


def _is_role(_: RecordedPair, difference: Difference) -> bool:
    return difference.theirs is ABSENT and difference.ours == "model"


def _is_named_tool(_: RecordedPair, difference: Difference) -> bool:
    return difference.theirs == "tool" and difference.ours in ("user", "function")


def _has_results_beside(pair: RecordedPair, _: Difference | None = None) -> bool:
    """Some content is what a function answered, and something else."""
    contents = _camel(parse_json(pair.recording.request)).get("contents", ())
    several = [one["parts"] for one in contents if len(one["parts"]) > 1]
    return any("functionResponse" in part for parts in several for part in parts)


def _has_odd_total(pair: RecordedPair, difference: Difference) -> bool:
    told = b"totalTokenCount" in pair.recording.text
    is_odd = "total_inconsistent" in str(pair.ours.attributes["metadata"])
    return difference.ours is ABSENT and (is_odd or not told)


def _has_odd_details(pair: RecordedPair, difference: Difference) -> bool:
    is_odd = "details_inconsistent" in str(pair.ours.attributes["metadata"])
    return difference.ours is ABSENT and is_odd


def _is_embedding(pair: RecordedPair, _: Difference) -> bool:
    return pair.ours.name == "CreateEmbeddings"


def _is_extra_of_embedding(pair: RecordedPair, difference: Difference) -> bool:
    return is_extra(pair, difference) and _is_embedding(pair, difference)


def _is_joined_otherwise(_: RecordedPair, difference: Difference) -> bool:
    return str(difference.theirs).replace("\n\n", "") == str(difference.ours)


_CALL = r"llm\.(in|out)put_messages\.\d+\.message\.tool_calls\.\d+\.tool_call"
_PART = r"llm\.(in|out)put_messages\.\d+\.message\.contents\.\d+\.message_content"
_CANDIDATE = r"output\.value/candidates/\d+"

ALLOWED = (
    *OF_MODELS,
    Allowed("the system, which it does not tell", "docs/contract/apis.md#span-names",
            r"llm\.system", is_extra),
    Allowed("both models where they differ", "docs/contract/spans.md#model-name",
            r"llm\.(request|response)\.model_name", is_extra),
    Allowed("it calls either schema of a tool parameters", "docs/contract/apis.md#tools-on-offer",
            r"llm\.tools\.\d+\.tool\.json_schema/parameters(JsonSchema)?"),
    Allowed("its parameters are the configuration alone", "docs/contract/apis.md#gemini-request",
            r"llm\.invocation_parameters(/(toolConfig|cachedContent))?", is_extra),
    Allowed("names of a schema's own in snake case", "docs/contract/apis.md#gemini-answer",
            r".*/\$defs/.*"),
    Allowed("it looks at the request of a stream when that has begun",
            "docs/contract/apis.md#gemini-endings", r"input\..*", _is_refused_stream),
    Allowed("the SDK cannot read arrays and numbers for words",
            "docs/contract/apis.md#framing; docs/contract/apis.md#gemini-answer", ".*", is_unread),
    Allowed("a stream without a reason is cut", "docs/contract/apis.md#gemini-endings",
            r"status|events/exception", _is_cut),
    Allowed("the reason of a blocked prompt", "docs/contract/apis.md#gemini-endings",
            r"llm\.finish_reason", _is_extra_of("blockReason")),
    Allowed("results are messages of tools", "docs/contract/apis.md#gemini-request",
            r"llm\.input_messages\.\d+\.message\.role", _is_named_tool),
    Allowed("several results are several messages", "docs/contract/apis.md#gemini-request",
            r"llm\.input_messages\..*", _has_results_beside),
    Allowed("a role that did not come", "docs/contract/apis.md#gemini-request",
            r"llm\.output_messages\.\d+\.message\.role", _is_role),
    Allowed("sound and documents", "docs/contract/apis.md#gemini-request",
            rf"{_PART}\.(type|(audio|document)\..*)", is_extra),
    Allowed("signatures in the alphabet of URLs", "docs/contract/apis.md#long-signatures",
            rf"{_PART}\.signature|{_CALL}\.reasoning_signature|{_CANDIDATE}/.*(Signature|data)",
            _is_same_base64),
    Allowed("long signatures", "docs/contract/apis.md#long-signatures",
            rf"{_PART}\.signature|{_CALL}\.reasoning_signature", _is_long),
    Allowed("code that Google runs", "docs/contract/apis.md#gemini-request", rf"{_CALL}\..*",
            _is_extra_of("executableCode")),
    Allowed("what is empty",
            "docs/contract/apis.md#gemini-request; docs/contract/apis.md#gemini-answer",
            rf"{_CALL}\.function\.arguments|llm\.input_messages\.\d+\.message\.content|"
            rf"output\.value/candidates|{_CANDIDATE}/content/parts", _is_empty),
    Allowed("ids of calls", "docs/contract/apis.md#gemini-request", rf"{_CALL}\.id", is_extra),
    Allowed("signed texts and arguments in pieces, of a stream",
            "docs/contract/apis.md#gemini-stream",
            rf"{_CANDIDATE}/content/parts/.*|{_PART}\..*|{_CALL}\.function\.arguments", _is_joined),
    Allowed("ratings of every chunk, one after the other", "docs/contract/apis.md#gemini-stream",
            rf"{_CANDIDATE}/safetyRatings/.*", _is_rated_again),
    Allowed("a total that is absent, or less than its parts", "docs/contract/spans.md#total",
            r"llm\.token_count\.total", _has_odd_total),
    Allowed("a cache that is larger than the prompt", "docs/contract/spans.md#details",
            r"llm\.token_count\.prompt_details\.cache_read", _has_odd_details),
    Allowed("members of the SDK's own", "docs/contract/apis.md#gemini-answer",
            r"output\.value/(automaticFunctionCallingHistory|sdkHttpResponse|parsed)"),
    Allowed("members that its classes lack", "docs/contract/apis.md#gemini-answer",
            rf"output\.value/(createTime|usageMetadata/.*)|{_CANDIDATE}/(finishMessage|"
            r"content/[a-z-]*|citationMetadata.*|logprobsResult/.*/tokenID)", is_extra),
    Allowed("it calls sources citations", "docs/contract/apis.md#gemini-answer",
            rf"{_CANDIDATE}/citationMetadata/citations", _has("citationSources")),
    Allowed("the last candidate's reason, of a stream", "docs/contract/apis.md#gemini-answer",
            r"llm\.finish_reason", _has_several_reasons),
    Allowed("embeddings have OpenInference's name", "docs/contract/apis.md#span-names",
            "name", _is_embedding),
    Allowed("whose embeddings are", "docs/contract/apis.md#span-names",
            r"llm\.provider", _is_embedding),
    Allowed("texts of the parts of one content", "docs/contract/apis.md#gemini-endings",
            r"embedding\.embeddings\.\d+\.embedding\.text", _is_joined_otherwise),
    Allowed("what embeddings are asked for and answer", "docs/contract/spans.md#embeddings",
            r"embedding\.(invocation_parameters|embeddings\.\d+\.embedding\.vector)|"
            r"output\.(value|mime_type)|llm\.token_count\.\w+", _is_extra_of_embedding),
    Allowed("how a time is written", "docs/contract/apis.md#gemini-answer",
            r"output\.value/createTime", _is_same_time),
)  # fmt: skip


@pytest.fixture(scope="module", name="pairs")
def _pairs() -> list[RecordedPair]:
    embeddings = [one for api, one in build_calls() if api == "gemini.embed"]
    recorded = load_all(load_gemini, load_gemini_streams)
    recordings = [*recorded, *embeddings, *draw_contents(DRAWN)]
    with _copying_every_word():
        pairs = run_recorded(SDK, recordings)
    return [
        replace(pair, theirs=_normalise(pair.theirs), ours=_normalise(pair.ours)) for pair in pairs
    ]


@contextlib.contextmanager
def _copying_every_word() -> Iterator[None]:
    """Copy members of enums as later Pythons do, where this one has no such method.

    The SDK makes a member of each word that it does not know, and the instrumentation copies it.
    Without the method, as by Python 3.11.2, a copy is looked for in the class by its name, and the
    instrumentation raises in the middle of a stream.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not hasattr(enum.Enum, "__deepcopy__"):
            patch.setattr(enum.Enum, "__deepcopy__", lambda member, _: member, raising=False)
        yield


def test_a_word_that_the_sdk_does_not_know_is_copied() -> None:
    """By any Python: what the oracle reads does not depend on it."""
    with warnings.catch_warnings(), _copying_every_word():
        warnings.simplefilter("ignore")
        word = types.HarmCategory("HARM_CATEGORY_OF_TOMORROW")
        assert copy.deepcopy([word]) == [word]


def _normalise(span: DecodedSpan) -> DecodedSpan:
    """JSON without white space, its names in camel case, and without nulls.

    See ``docs/contract/apis.md#gemini-answer``.
    """
    shown: dict[str, Any] = {}
    for key, value in span.attributes.items():
        shown[key] = value
        decoded = parse_json(value) if isinstance(value, str) else None
        if key in _BODIES or key.endswith("json_schema"):
            if key == "llm.invocation_parameters" and isinstance(decoded, dict):
                decoded |= decoded.pop("generationConfig", {})
            shown[key] = json.dumps(_camel(decoded))
        elif isinstance(decoded, dict | list) and _AS_JSON.fullmatch(key):
            shown[key] = json.dumps(decoded, sort_keys=True)
    return replace(span, attributes=shown)


def _camel(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            _HUMP.sub(lambda hump: hump[1].upper(), name): _camel(one)
            for name, one in value.items()
            if one is not None
        }
    return [_camel(one) for one in value] if isinstance(value, list) else value


def test_a_recorded_call_has_the_span_of_the_instrumentation(pairs: list[RecordedPair]) -> None:
    """All recordings that the SDK can make, streamed or not."""
    assert find_faults(pairs, ALLOWED) == []
    assert len(pairs) >= CALLS
    assert sum("output.value" in pair.theirs.attributes for pair in pairs) >= READ
    assert {pair.ours.status for pair in pairs} == {"OK", "ERROR"}


def test_every_allowance_is_needed(pairs: list[RecordedPair]) -> None:
    """Some difference has no other reason, or the list is too long."""
    assert {one.name for one in ALLOWED} == find_needed(pairs, ALLOWED)


def test_nothing_may_be_missing_or_another(pairs: list[RecordedPair]) -> None:
    """Whatever the instrumentation says is looked for: changed, it is a fault."""
    samples = [pair for pair in pairs if pair.ours.status == pair.theirs.status == "OK"]
    samples = [pair for pair in samples if not _is_joined(pair) and not _has_results_beside(pair)]
    assert count_noticed(samples[::30], ALLOWED) > 200
