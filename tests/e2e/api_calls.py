"""One call of each other kind than chats and responses, by its SDK; a header names each."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anthropic
import cohere
import httpx
import ollama
import openai
import pytest
from google import genai
from google.genai import types

from proxy.demo.script import FAILING_MODEL, MODEL, REASONING_MODEL
from tests.e2e.calls import PIXEL, TOOL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ("CALLS", "DOCUMENTS", "PROMPT", "QUESTION", "RESULTS", "SYSTEM", "have_calls")

NAME = "x-spantap-metadata-call"
"""The header that names a call; its span has the name in its metadata."""

SYSTEM = "You are a friendly guide. Answer in one short sentence."
QUESTION = "What is the weather like in Lisbon and in Oslo?"
RESULTS = ("24 degrees and sunny", "8 degrees and rain")
PROMPT = "A sailing boat"
DOCUMENTS = ["The sea is wide.", "Land is dry, and Lisbon lies on it.", "The sky is high."]

_FUNCTION: Any = TOOL["function"]
_PICTURE = base64.b64decode(PIXEL.partition(",")[2])


def have_calls(base_url: str) -> None:
    """Have all of them, one after the other."""
    for name, call in CALLS.items():
        call(base_url, {NAME: name})


@contextmanager
def _anthropic(base_url: str, headers: dict[str, str]) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        api_key="demo",
        base_url=base_url,
        max_retries=0,
        default_headers=headers,
        http_client=anthropic.DefaultHttpxClient(trust_env=False),
    ) as client:
        yield client


_CLAUDES_TOOL: Any = {
    "name": _FUNCTION["name"],
    "description": _FUNCTION["description"],
    "input_schema": _FUNCTION["parameters"],
}


def _ask_claude(base_url: str, headers: dict[str, str], **changes: Any) -> Any:
    asked: dict[str, Any] = {
        "model": REASONING_MODEL,
        "max_tokens": 500,
        "system": SYSTEM,
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [_CLAUDES_TOOL],
    }
    with _anthropic(base_url, headers) as client, client.messages.stream(**asked | changes) as said:
        return said.get_final_message()


def _tell_claude(base_url: str, headers: dict[str, str]) -> None:
    """The results of the tools, and a picture, after what was said before."""
    said = _ask_claude(base_url, {NAME: f"{headers[NAME]}, before"})
    calls = [block for block in said.content if block.type == "tool_use"]
    picture = {
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": "image/png",
            "data": base64.b64encode(_PICTURE).decode(),
        },
    }
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": result}
        for call, result in zip(calls, RESULTS, strict=True)
    ]
    _ask_claude(
        base_url,
        headers,
        model=MODEL,
        messages=[
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": [block.model_dump() for block in said.content]},
            {"role": "user", "content": [*results, picture]},
        ],
    )


def _fail_claude(base_url: str, headers: dict[str, str]) -> None:
    try:
        _ask_claude(base_url, headers, model=FAILING_MODEL, tools=[])
    except anthropic.APIError:
        return
    raise AssertionError


def _count_tokens(base_url: str, headers: dict[str, str]) -> None:
    with _anthropic(base_url, headers) as client:
        client.messages.count_tokens(
            model=MODEL, messages=[{"role": "user", "content": QUESTION}], system=SYSTEM
        )


_OFF = types.AutomaticFunctionCallingConfig(disable=True)


@contextmanager
def _gemini(base_url: str, headers: dict[str, str]) -> Iterator[Any]:
    options = types.HttpOptions(base_url=base_url, headers=headers)
    with genai.Client(api_key="demo", http_options=options) as client:
        yield client.models


def _ask_gemini(base_url: str, headers: dict[str, str], contents: Any, model: str) -> Any:
    tool = types.Tool(
        function_declarations=[
            types.FunctionDeclaration(
                name=_FUNCTION["name"],
                description=_FUNCTION["description"],
                parameters_json_schema=_FUNCTION["parameters"],
            )
        ]
    )
    config = types.GenerateContentConfig(
        system_instruction=SYSTEM, tools=[tool], automatic_function_calling=_OFF, temperature=0.2
    )
    with _gemini(base_url, headers) as models:
        stream = models.generate_content_stream(model=model, contents=contents, config=config)
        return [
            part
            for chunk in stream
            for part in (chunk.candidates[0].content and chunk.candidates[0].content.parts) or ()
        ]


def _ask_gemini_to_think(base_url: str, headers: dict[str, str]) -> None:
    _ask_gemini(base_url, headers, QUESTION, REASONING_MODEL)


def _ask_gemini_at_once(base_url: str, headers: dict[str, str]) -> None:
    with _gemini(base_url, headers) as models:
        models.generate_content(model=MODEL, contents=QUESTION)


def _tell_gemini(base_url: str, headers: dict[str, str]) -> None:
    """The results of the functions, and a picture, after what was said before."""
    before = {NAME: f"{headers[NAME]}, before"}
    said = _ask_gemini(base_url, before, QUESTION, REASONING_MODEL)
    names = [part.function_call.name for part in said if part.function_call]
    results = [
        types.Part.from_function_response(name=name, response={"weather": result})
        for name, result in zip(names, RESULTS, strict=True)
    ]
    picture = types.Part.from_bytes(data=_PICTURE, mime_type="image/png")
    contents = [
        types.Content(role="user", parts=[types.Part.from_text(text=QUESTION), picture]),
        types.Content(role="model", parts=said),
        types.Content(role="user", parts=results),
    ]
    _ask_gemini(base_url, headers, contents, MODEL)


def _embed_by_gemini(base_url: str, headers: dict[str, str]) -> None:
    with _gemini(base_url, headers) as models:
        models.embed_content(
            model=MODEL,
            contents=DOCUMENTS,
            config=types.EmbedContentConfig(output_dimensionality=4),
        )


@contextmanager
def _ollama(base_url: str, headers: dict[str, str]) -> Iterator[ollama.Client]:
    client: Any = ollama.Client(base_url, headers=headers, trust_env=False)
    try:
        yield client
    finally:
        client.close()


def _ask_ollama(base_url: str, headers: dict[str, str]) -> None:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    messages[1] |= {"images": [base64.b64encode(_PICTURE).decode()]}  # type: ignore[dict-item]
    with _ollama(base_url, headers) as client:
        for _ in client.chat(REASONING_MODEL, messages, tools=[TOOL], stream=True, think=True):
            pass


def _prompt_ollama(base_url: str, headers: dict[str, str]) -> None:
    with _ollama(base_url, headers) as client:
        client.generate(MODEL, QUESTION, system=SYSTEM)


def _embed_by_ollama(base_url: str, headers: dict[str, str]) -> None:
    with _ollama(base_url, headers) as client:
        client.embed(MODEL, DOCUMENTS)


def _rank(base_url: str, headers: dict[str, str]) -> None:
    with httpx.Client(trust_env=False) as http:
        client = cohere.ClientV2("demo", base_url=base_url, httpx_client=http, max_retries=0)
        client.rerank(
            model=MODEL,
            query="Where is land?",
            documents=DOCUMENTS,
            top_n=2,
            request_options={"additional_headers": headers},
        )


@contextmanager
def _openai(base_url: str, headers: dict[str, str]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        api_key="demo",
        base_url=f"{base_url}/v1",
        max_retries=0,
        default_headers=headers,
        http_client=openai.DefaultHttpx2Client(trust_env=False),
    ) as client:
        yield client


def _complete(base_url: str, headers: dict[str, str]) -> None:
    with _openai(base_url, headers) as client:
        client.completions.create(model=MODEL, prompt=QUESTION)


def _embed(base_url: str, headers: dict[str, str]) -> None:
    with _openai(base_url, headers) as client:
        client.embeddings.create(model=MODEL, input=DOCUMENTS)


def _moderate(base_url: str, headers: dict[str, str]) -> None:
    with _openai(base_url, headers) as client:
        client.moderations.create(input=["Hello", "I break into houses"])


def _draw(base_url: str, headers: dict[str, str]) -> None:
    with _openai(base_url, headers) as client:
        client.images.generate(model=MODEL, prompt=PROMPT)


def _draw_in_steps(base_url: str, headers: dict[str, str]) -> None:
    """An image of an image, by a form, with one that is not finished before it."""
    with _openai(base_url, headers) as client:
        stream = client.images.edit(
            model=MODEL, image=_PICTURE, prompt=PROMPT, stream=True, partial_images=1
        )
        assert [event.type for event in stream] == [
            "image_edit.partial_image",
            "image_edit.completed",
        ]


def _speak(base_url: str, headers: dict[str, str]) -> None:
    with _openai(base_url, headers) as client:
        client.audio.speech.create(model=MODEL, voice="alloy", input=QUESTION)


_SOUND = ("silence.wav", bytes(16_000))


def _transcribe(base_url: str, headers: dict[str, str]) -> None:
    with _openai(base_url, headers) as client:
        for _ in client.audio.transcriptions.create(model=MODEL, file=_SOUND, stream=True):
            pass


def _translate(base_url: str, headers: dict[str, str]) -> None:
    with _openai(base_url, headers) as client, pytest.deprecated_call():
        client.audio.translations.create(model=MODEL, file=_SOUND)


CALLS: dict[str, Callable[[str, dict[str, str]], object]] = {
    "messages": _ask_claude,
    "messages with results": _tell_claude,
    "failed message": _fail_claude,
    "token count": _count_tokens,
    "gemini": _ask_gemini_to_think,
    "gemini with results": _tell_gemini,
    "gemini embedding": _embed_by_gemini,
    "ollama": _ask_ollama,
    "ollama text": _prompt_ollama,
    "ollama embedding": _embed_by_ollama,
    "ranking": _rank,
    "moderation": _moderate,
    "completion": _complete,
    "embedding": _embed,
    "image": _draw,
    "image in steps": _draw_in_steps,
    "speech": _speak,
    "transcription": _transcribe,
    "translation": _translate,
    "gemini at once": _ask_gemini_at_once,
}
"""By their names, in order. Two have another one before them, whose name ends in ``before``."""
