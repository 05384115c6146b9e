"""One call of each kind, as a real Phoenix keeps it and as a person sees it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from codec.apis.table import POSTED
from tests.e2e.api_calls import CALLS, DOCUMENTS, PROMPT, QUESTION, RESULTS, SYSTEM, have_calls
from tests.e2e.spantap import running_proxy
from tests.e2e.test_browser import open_shown, take_picture

if TYPE_CHECKING:
    from pathlib import Path

    from codec.text.jsontext import JsonObject
    from tests.e2e.phoenix import Phoenix, StoredSpan

pytestmark = pytest.mark.e2e

PROJECT = "apis"
BEFORE = 2
"""Calls that only lead to another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A call in Phoenix: its span, what Phoenix makes of that, and its page."""

    span: StoredSpan
    view: JsonObject
    url: str


@pytest.fixture(name="shown", scope="module")
def _shown(
    phoenix: Phoenix, upstream_port: int, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Shown]:
    """All calls by name."""
    with running_proxy(
        tmp_path_factory.mktemp(PROJECT),
        upstream_port=upstream_port,
        project=PROJECT,
        endpoint=phoenix.url,
        protocol="http/protobuf",
    ) as proxy:
        have_calls(proxy.base_url.removesuffix("/v1"))
        spans = phoenix.wait_for_spans(PROJECT, len(CALLS) + BEFORE)
    project = phoenix.read_project(PROJECT)
    views = {view["spanId"]: view for view in project["spans"]}
    return {
        str(span.attributes["metadata.call"]): Shown(
            span=span,
            view=views[span.span_id],
            url=f"{phoenix.url}/projects/{project['id']}/traces/{span.trace_id}",
        )
        for span in spans
    }


NAMES = {
    **dict.fromkeys(("messages", "messages with results", "failed message"), ("Message", "llm")),
    "token count": ("CountTokens", "chain"),
    "gemini": ("GenerateContentStream", "llm"),
    "gemini with results": ("GenerateContentStream", "llm"),
    "gemini embedding": ("CreateEmbeddings", "embedding"),
    "ollama": ("Chat", "llm"),
    "ollama text": ("Generate", "llm"),
    "ollama embedding": ("CreateEmbeddings", "embedding"),
    "ranking": ("Rerank", "reranker"),
    "moderation": ("ModerationCreateResponse", "guardrail"),
    "completion": ("Completion", "llm"),
    "embedding": ("CreateEmbeddings", "embedding"),
    "image": ("ImagesResponse", "llm"),
    "image in steps": ("ImagesResponse", "llm"),
    "speech": ("AudioSpeech", "llm"),
    "transcription": ("Transcription", "llm"),
    "translation": ("Translation", "llm"),
    "gemini at once": ("GenerateContent", "llm"),
}
"""What each is called, and what Phoenix says that it is."""

TEXTS = {
    "messages": (SYSTEM, QUESTION, "Reasoning", "Tool Call: call_demo_0_1", "Lisbon", "Oslo"),
    "messages with results": (SYSTEM, QUESTION, *RESULTS),
    "failed message": ("api_error: The demo model was asked to fail", QUESTION, "Hello!"),
    "token count": (QUESTION, '"input_tokens"'),
    "gemini": (SYSTEM, QUESTION, "Reasoning", "Tool Call: call_demo_0_1", "Lisbon", "Oslo"),
    "gemini with results": (SYSTEM, QUESTION, *RESULTS),
    "gemini embedding": ("Embedded Text", *DOCUMENTS),
    "ollama": (SYSTEM, QUESTION, "Reasoning", "Tool Call: call_demo_0_1", "Lisbon", "Oslo"),
    "ollama text": (QUESTION, "Hello! I am a demo model"),
    "ollama embedding": ("Embedded Text", *DOCUMENTS),
    "ranking": ("Where is land?", "document 1", "score 0.66", DOCUMENTS[1]),
    "moderation": ("I break into houses", '"flagged"'),
    "completion": (QUESTION, "Hello! I am a demo model"),
    "embedding": ("Embedded Text", *DOCUMENTS),
    "image": (PROMPT, "assistant"),
    "image in steps": (PROMPT, "assistant"),
    "speech": (QUESTION,),
    "transcription": ("silence.wav", "assistant"),
    "translation": ("silence.wav", "assistant"),
    "gemini at once": (QUESTION, "Hello! I am a demo model"),
}
"""What is to be read on the page of each."""

_COUNTS = ("prompt", "completion")
WITH_PICTURES = {
    *("messages with results", "gemini with results", "ollama"),
    *("image", "image in steps"),
}


ELSEWHERE = {"ChatCompletion", "Response"}
"""Of these there are more pages: test_browser.py and test_responses.py."""


def test_every_kind_is_here() -> None:
    """With its name and its texts; no API of the table is without a page."""
    assert NAMES.keys() == TEXTS.keys() == CALLS.keys()
    called = {span_name for span_name, _ in NAMES.values()}
    assert called | ELSEWHERE == {api.span_name for api in POSTED}


@pytest.mark.parametrize("name", CALLS)
def test_phoenix_knows_kind_status_and_tokens(shown: dict[str, Shown], name: str) -> None:
    """The counts are those of the span; what is no LLM has none there, and is not billed."""
    call = shown[name]
    assert (call.span.name, call.view["spanKind"]) == NAMES[name]
    assert call.view["statusCode"] == ("ERROR" if name == "failed message" else "OK")
    counts = [call.view["tokenCountPrompt"], call.view["tokenCountCompletion"]]
    if NAMES[name][1] == "llm":
        told = (call.span.attributes.get(f"llm.token_count.{key}") for key in _COUNTS)
        assert counts == [count or 0 for count in told]
        assert counts[0] or name == "speech"  # sound alone has no counts
    else:  # Phoenix counts the tokens of LLMs alone
        assert not any(counts)


@pytest.mark.parametrize("name", CALLS)
async def test_page_shows_what_was_asked_and_said(
    shown: dict[str, Shown], tmp_path: Path, name: str
) -> None:
    """Every message once, no card without a word, each call of a tool once, pictures drawn."""
    call = shown[name]
    async with open_shown(call.url, tmp_path) as page:
        text = await page.wait_for(call.span.name, *TEXTS[name])
        await take_picture(page, f"api-{name.replace(' ', '-')}")
        for identity in ("call_demo_0_0", "call_demo_0_1"):
            assert text.count(f"Tool Call: {identity}") <= 1
        if name in WITH_PICTURES:
            if name.startswith("gemini"):
                await page.unfold("user")
                await page.settle()
            assert await page.find_pictures() == [1]
        if name == "ranking":
            await page.unfold("Documents")
            await page.wait_for(*DOCUMENTS)
    roles = [key for key in call.span.attributes if key.endswith(".message.role")]
    inputs = sorted(int(key.split(".")[2]) for key in roles if key.startswith("llm.input"))
    assert inputs == [*range(len(inputs))]
