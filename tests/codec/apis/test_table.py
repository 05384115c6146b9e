"""``codec.apis.table``: the requests that are observed."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codec.apis.chat import CHAT
from codec.apis.completions import COMPLETIONS
from codec.apis.embeddings.route import EMBEDDINGS
from codec.apis.gemini.live.route import GEMINI_LIVE
from codec.apis.gemini.route import GEMINI, GEMINI_COUNT, GEMINI_EMBED, GEMINI_STREAM
from codec.apis.images.route import IMAGES
from codec.apis.messages.route import MESSAGES
from codec.apis.moderations.route import MODERATIONS
from codec.apis.ollama.route import OLLAMA_CHAT, OLLAMA_EMBED, OLLAMA_GENERATE
from codec.apis.realtime.route import REALTIME
from codec.apis.rerank.route import RERANK
from codec.apis.responses.route import RESPONSES
from codec.apis.speech.route import SPEECH
from codec.apis.table import (
    APIS,
    OBSERVED,
    SESSIONS,
    calls_model_unobserved,
    find_api,
    find_session_api,
    get_api,
)
from codec.apis.transcriptions.route import TRANSCRIPTIONS, TRANSLATIONS

if TYPE_CHECKING:
    from codec.apis.api import Api


@pytest.mark.parametrize(
    "target",
    [
        "/v1/chat/completions",
        "/chat/completions",
        "/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21",
        "/api/paas/v4/chat/completions",
        "/api/v1/chat/completions?",
        "/v1//chat/completions",
        "http://host/v1/chat/completions",
    ],
)
def test_chat_completions_are_known_by_the_end_of_the_path(target: str) -> None:
    """Whatever comes before, and whatever query follows.

    See ``docs/contract/promises.md#observed``.
    """
    assert find_api("POST", target) is CHAT


@pytest.mark.parametrize(
    "target",
    [
        "/v1/completions",
        "/openai/deployments/davinci/completions?api-version=2024-10-21",
        "/completions",
        "/v1/notchat/completions",
    ],
)
def test_a_legacy_completion_is_known_by_the_end_of_its_path(target: str) -> None:
    """Whatever comes before it, but for a chat."""
    assert find_api("POST", target) is COMPLETIONS


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/chat/completions"),
        ("OPTIONS", "/v1/chat/completions"),
        ("post", "/v1/chat/completions"),
        ("POST", "/v1/chat/completions/chatcmpl-1"),
        ("POST", "/v1/Chat/Completions"),
        ("GET", "/v1/completions"),
        ("POST", "/v1/textcompletions"),
        ("GET", "/v1/responses"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("POST", "/v1/responses/resp_1/compact"),
        ("POST", "/v1/responses/input_tokens"),
        ("GET", "/v1/embeddings"),
        ("GET", "/v1/rerank"),
        ("POST", "/v1/xrerank"),
        ("POST", "/v1/rerank/batch"),
        ("GET", "/v1/organization/usage/moderations"),
        ("POST", "/v1/automoderations"),
        ("POST", "/v1/multiembeddings"),
        ("POST", "/v1/models?next=/chat/completions"),
        ("POST", "/v1/chat%2Fcompletions"),
        ("POST", ""),
        ("POST", "*"),
    ],
)
def test_everything_else_is_other(method: str, target: str) -> None:
    """Another method, another path, or the words in a query only."""
    assert find_api(method, target) is None


def test_embeddings_are_known_by_the_end_of_the_path() -> None:
    """Azure puts a deployment before it."""
    for target in ("/v1/embeddings", "/openai/deployments/d/embeddings?api-version=1"):
        assert find_api("POST", target) is EMBEDDINGS


@pytest.mark.parametrize(
    "target",
    [
        "/v1/responses",
        "/v1/responses/",
        "/openai/v1/responses?api-version=preview",
        "/backend-api/codex/responses",
        "/api/v1/responses/?x",
        "/v1/responses/compact",
        "/openai/v1/responses/compact?api-version=v1",
    ],
)
def test_responses_are_known_by_the_end_of_the_path(target: str) -> None:
    """A conversation that is to be compacted is one."""
    assert find_api("POST", target) is RESPONSES


@pytest.mark.parametrize(
    ("target", "is_one"),
    [
        ("/v1/messages", True),
        ("/v1/messages/?beta=true", True),
        ("/anthropic/v1/messages", True),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/m@1:rawPredict", True),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/m@1:streamRawPredict?x", True),
        ("/v1/projects/p/locations/l/publishers/mistralai/models/m:rawPredict", False),
        ("/v1/projects/p/locations/l/publishers/mistralai/models/m:rawPredict/", False),
        ("/v1/threads/t/messages", False),
        ("/v1/messages/batches", False),
        ("/v1/xmessages", False),
    ],
)
def test_messages_are_known_by_whole_segments_at_the_end_of_the_path(
    target: str, *, is_one: bool
) -> None:
    """Not those of a thread, nor models of others on Vertex AI.

    See ``docs/contract/apis.md#end-of-the-path``.
    """
    assert (find_api("POST", target) is MESSAGES) is is_one


def test_rankings_and_moderations_are_known_by_the_end_of_the_path() -> None:
    """Cohere's two versions, vLLM's and TEI's bare one, a gateway's; Mistral's of conversations."""
    for target in ("/v1/rerank", "/cohere/v2/rerank?x", "/rerank", "/api/v1/rerank/"):
        assert find_api("POST", target) is RERANK
    for target in ("/v1/moderations", "/v1/moderations/", "/v1/chat/moderations"):
        assert find_api("POST", target) is MODERATIONS


@pytest.mark.parametrize(
    ("target", "api"),
    [
        ("/v1/images/generations", IMAGES),
        ("/openai/deployments/dalle/images/generations?api-version=1", IMAGES),
        ("/v1/images/edits/", IMAGES),
        ("/images/variations", IMAGES),
        ("/v1/audio/speech", SPEECH),
        ("/api/v1/audio/speech/?x", SPEECH),
        ("/v2/audio/transcriptions", TRANSCRIPTIONS),
        ("/openai/v1/audio/translations", TRANSLATIONS),
        ("/api/v1/images", IMAGES),
        ("/openrouter/images", IMAGES),
        ("/v1/ximages", None),
        ("/v1/images/1", None),
        ("/v1/ximages/edits", None),
        ("/v1/images/generations/1", None),
        ("/v1/audio/voices", None),
        ("/v1/speech", None),
        ("/v1/audio/transcriptionss", None),
    ],
)
def test_images_and_sound_are_known_by_two_segments(target: str, api: Api | None) -> None:
    """Whatever stands before (``docs/contract/apis.md#end-of-the-path``)."""
    assert find_api("POST", target) is api
    assert find_api("GET", target) is None


@pytest.mark.parametrize(
    ("target", "api"),
    [
        ("/api/chat", OLLAMA_CHAT),
        ("/ollama/api/chat/?x", OLLAMA_CHAT),
        ("/api/generate", OLLAMA_GENERATE),
        ("/api/embed", OLLAMA_EMBED),
        ("/api/embeddings", OLLAMA_EMBED),
        ("/api/v1/embeddings", EMBEDDINGS),
        ("/api/chat/completions", CHAT),
        ("/myapi/chat", None),
        ("/v1/chat", None),
        ("/api/embeddingss", None),
        *((f"/api/{name}", None) for name in ("tags", "show", "ps", "pull", "create", "version")),
    ],
)
def test_ollamas_own_api_is_known_by_two_segments(target: str, api: Api | None) -> None:
    """What shows, pulls and lists models calls none."""
    assert find_api("POST", target) is api


@pytest.mark.parametrize(
    ("target", "api"),
    [
        ("/v1beta/models/gemini-3-pro:generateContent", GEMINI),
        ("/v1beta/models/gemini-3-pro:generateContent?key=k", GEMINI),
        ("/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", GEMINI_STREAM),
        ("/v1beta/tunedModels/mine:generateContent", GEMINI),
        ("/v1/projects/p/locations/l/publishers/google/models/g:generateContent", GEMINI),
        ("/v1/projects/p/locations/l/endpoints/7:streamGenerateContent", GEMINI_STREAM),
        ("/v1beta/models/gemini-embedding-001:embedContent?key=k", GEMINI_EMBED),
        ("/v1beta/models/gemini-embedding-001:batchEmbedContents", GEMINI_EMBED),
        ("/v1beta/models/:embedContent", None),
        ("/v1beta/models/a:asyncBatchEmbedContent", None),
        ("/v1beta/models/:generateContent", None),
        ("/v1beta/models/a/b:generateContent", None),
        ("/v1beta/xmodels/a:generateContent", None),
        ("/v1beta/models/a:batchGenerateContent", None),
        ("/v1beta/models/a:countTokens", GEMINI_COUNT),
        ("/v1beta/models/:countTokens", None),
        ("/v1/publishers/google/models/a:predict", None),
        ("/:generateContent", None),
    ],
)
def test_gemini_is_known_by_the_model_and_what_is_asked_of_it(target: str, api: Api | None) -> None:
    """Whatever stands before, on either of Google's hosts.

    See ``docs/contract/apis.md#end-of-the-path``.
    """
    assert find_api("POST", target) is api


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/v1/rerank", False),
        ("/v1/responses", False),
        ("/v1beta/models/gemini:streamGenerateContent?alt=sse", False),
        ("/model/anthropic.claude/converse-stream", True),
        ("/model/anthropic.claude/invoke/", True),
        ("/api/chat", False),
        ("/api/tags", False),
        ("/v1/responses/resp_1/cancel", False),
        ("/v1/files?next=/v1/messages", False),
        ("/v1/chat/completions", False),
    ],
)
def test_other_apis_that_call_models_are_known_by_the_end_of_the_path(
    target: str, *, expected: bool
) -> None:
    """They are relayed, and people look for their spans in vain."""
    assert calls_model_unobserved(target) is expected


def find(api: Api, target: str) -> Api | None:
    """The API of a call to this target, in the way in which this one is called."""
    return find_session_api(target) if api.sockets_only else find_api("POST", target)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_an_api_is_found_by_its_name_and_by_the_end_of_its_path(api: Api) -> None:
    """Whatever its place in the table: none hides another."""
    assert get_api(api.name) is api
    before = "/v1" if api.path_ends[0].startswith("/") else "/v1/models/m"
    assert find(api, before + api.path_ends[0]) is api
    assert f"…{api.path_ends[0]}" in OBSERVED


@pytest.mark.parametrize("slashes", ["/", "//", "///?x=1"])
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_slashes_behind_a_path_change_nothing(api: Api, slashes: str) -> None:
    """Each end of each API takes them; the model and the stream that a path names are found."""
    for end in api.path_ends:
        kind = "/v1/publishers/anthropic/models" if "Predict" in end else "/v1/models"
        before = "/v1" if end.startswith("/") else f"{kind}/m"
        assert find(api, f"{before}{end}{slashes}") is api
        plain = api.decode_asked(b"{}", before + end)
        asked = api.decode_asked(b"{}", f"{before}{end}{slashes.partition('?')[0]}")
        assert (asked.model, asked.stream) == (plain.model, plain.stream)


@pytest.mark.parametrize(
    "api",
    [CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, RERANK, MODERATIONS, IMAGES, SPEECH, TRANSCRIPTIONS],
    ids=lambda api: api.name,
)
def test_the_model_is_the_bodys_else_the_deployment_of_azures_path(api: Api) -> None:
    """Where the body names none (``docs/contract/apis.md#model-in-the-path``)."""
    path = f"/openai/deployments/my%20gpt{api.path_ends[0]}"
    assert api.decode_asked(b"{}", path).model == "my gpt"
    assert api.decode_asked(b'{"model": "m"}', path).model == "m"
    assert api.decode_asked(b"{}", f"/v1{api.path_ends[0]}").model is None


GOOGLE = "/ws/google.ai.generativelanguage.v1beta.GenerativeService"


@pytest.mark.parametrize(
    ("target", "is_one"),
    [
        (f"{GOOGLE}.BidiGenerateContent?key=k", True),
        (f"{GOOGLE}.BidiGenerateContentConstrained", True),
        ("//ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent", True),
        (f"{GOOGLE}.BidiGenerateMusic", False),
        ("/ws/XBidiGenerateContent", False),
        ("/ws/x?next=/BidiGenerateContent", False),
    ],
)
def test_live_is_known_by_the_method_at_the_end_of_the_path(target: str, *, is_one: bool) -> None:
    """In Google's own API, with a token of one session, and in Vertex AI; never by ``POST``."""
    assert find_session_api(target) is (GEMINI_LIVE if is_one else None)
    assert find_api("POST", target) is None


def test_what_comes_only_over_websockets_has_a_session() -> None:
    """Else nobody would read it."""
    assert {api.name for api in APIS if api.sockets_only} < SESSIONS.keys()


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize("depth", [900, 5_000])
@pytest.mark.parametrize("from_client", [True, False])
def test_no_message_is_nested_too_deeply_for_a_session(
    name: str, depth: int, *, from_client: bool
) -> None:
    """It is passed over."""
    session = SESSIONS[name]()
    for head in (b'{"type": "response.create", "response": ', b'{"serverContent": ', b'{"setup": '):
        text = head + b"[" * depth + b"]" * depth + b"}"
        assert [*session.feed(text, from_client=from_client, at_ns=1)] == []


def test_of_an_api_that_nobody_knows_nothing_is_guessed() -> None:
    """Frames in a spool may be of another version (R6)."""
    unknown = get_api("tea")
    assert (unknown.operation, unknown.api_type) == (None, None)


def test_the_import_contracts_name_every_api() -> None:
    """Those that keep the APIs apart are lists: a new folder or module must be in both."""
    root = Path(__file__).parents[3]
    table = ast.parse((root / "codec/apis/table.py").read_text(encoding="utf-8"))
    imported = [one.module for one in ast.walk(table) if isinstance(one, ast.ImportFrom)]
    folders = {f"codec.apis.{one.parent.name}" for one in root.glob("codec/apis/*/__init__.py")}
    shared = {"codec.apis.api", "codec.apis.session"}
    modules = {
        ".".join(name.split(".")[:3])
        for name in imported
        if name is not None and name.startswith("codec.apis.") and name not in shared
    }
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    [apart] = [one["modules"] for one in contracts if one["type"] == "independence"]
    hidden = [one["protected_modules"] for one in contracts if one["type"] == "protected"]
    assert folders <= modules
    assert set(apart) == modules | folders
    assert modules | folders in map(set, hidden)


@pytest.mark.parametrize(
    ("target", "api"),
    [
        ("/v1/realtime?model=gpt-realtime", REALTIME),
        ("/openai/realtime?api-version=1&deployment=d", REALTIME),
        ("/openai/v1/realtime/", REALTIME),
        ("/v1/responses", RESPONSES),
        ("/v1/realtime/translations", None),
        ("/v1/realtime/calls", None),
        ("/v1/chat/completions", None),
    ],
)
def test_the_api_of_a_websocket_is_known_by_the_end_of_its_path(
    target: str, api: Api | None
) -> None:
    """A ``POST`` to Realtime's begins a session elsewhere, by WebRTC."""
    assert find_session_api(target) is api
    assert find_api("POST", target) is not REALTIME


def test_a_count_of_tokens_is_no_message() -> None:
    """At Anthropic, and where its SDK for Vertex AI sends it."""
    place = "/v1/projects/p/locations/l/publishers/anthropic/models"
    for target in ("/v1/messages/count_tokens?beta=true", f"{place}/count-tokens:rawPredict"):
        api = find_api("POST", target)
        assert api is not None
        assert api.name == "count_tokens"


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("/v1internal:generateContent", "code_assist.generate"),
        ("/v1internal:streamGenerateContent?alt=sse", "code_assist.stream"),
        ("/google/v1internal:countTokens", "code_assist.count"),
        ("/v1internal:loadCodeAssist", None),
        ("/xv1internal:generateContent", None),
        ("/v1internal/models/m:generateContent", "gemini.generate"),
    ],
)
def test_code_assist_is_known_by_its_version_and_method(target: str, name: str | None) -> None:
    """Its envelope names the API that reads what is inside."""
    found = find_api("POST", target)
    assert (None if found is None else found.name) == name
