"""Without an upstream each API goes to its own provider, and others have a prefix each."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from codec.usage_option import UsagePolicy
from proxy.app import build_upstreams
from proxy.headers import Head
from proxy.settings.settings import Settings
from proxy.settings.tables import UpstreamConfig
from proxy.upstream.catalogue import read_catalogue
from proxy.upstream.owners import BASE_URLS, Owner, find_asker, find_owner
from proxy.upstream.routes import UpstreamTable
from proxy.upstream_entry import UpstreamEntry, check_url
from telemetry.errors import ConfigurationError
from telemetry.provider import infer_provider

HOSTS = {urlsplit(url).netloc for url in BASE_URLS.values()}


def table(*entries: UpstreamEntry, default: str | None = None, **how: Any) -> UpstreamTable:
    return UpstreamTable.from_config(default, entries, UsagePolicy.ALWAYS, **how)


@pytest.mark.parametrize("row", read_catalogue(), ids=lambda row: row.name)
def test_a_row_is_a_usable_url_and_its_host_tells_the_provider_it_names(row: Any) -> None:
    """With a source and a day; nothing in it is plain HTTP."""
    assert check_url(row.url).startswith("https://")
    assert infer_provider(urlsplit(row.url).hostname) == row.provider
    assert re.fullmatch(r"[a-z0-9]+", row.name)
    assert row.source.startswith("https://")
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", row.date)


def test_no_row_is_there_twice() -> None:
    """Neither its name, which is its prefix, nor its URL."""
    rows = read_catalogue()
    assert len(rows) > 20
    assert len({row.name for row in rows}) == len({row.url for row in rows}) == len(rows)
    assert not {f"/{row.name}" for row in rows} & {"/v1", "/v1beta", "/api", "/upload", "/ws"}


@pytest.mark.parametrize(
    ("target", "head", "owner"),
    [
        ("/v1/chat/completions", [], Owner.OPENAI),
        ("/v1/chat/completions", [b"x-api-key"], Owner.OPENAI),
        ("/v1/responses", [], Owner.OPENAI),
        ("/v1/completions", [], Owner.OPENAI),
        ("/v1/messages", [], Owner.ANTHROPIC),
        ("/v1/messages?beta=true", [b"authorization"], Owner.ANTHROPIC),
        ("/v1/messages/count_tokens", [], Owner.ANTHROPIC),
        ("/v1/messages/batches", [], Owner.ANTHROPIC),
        ("/v1/messagesx", [], Owner.OPENAI),
        ("/v1/models", [], Owner.OPENAI),
        ("/v1/models", [b"authorization"], Owner.OPENAI),
        ("/v1/models/claude", [b"anthropic-version", b"authorization"], Owner.ANTHROPIC),
        ("/v1/models", [b"x-api-key"], Owner.ANTHROPIC),
        ("/v1/models", [b"x-api-key", b"authorization"], Owner.OPENAI),
        ("/v1/models", [b"x-goog-api-key"], Owner.GOOGLE),
        ("/v1/files/f", [b"anthropic-version"], Owner.ANTHROPIC),
        ("/v1/files", [b"authorization"], Owner.OPENAI),
        ("/v1/models/ft:gpt-4o:org::id", [b"authorization"], Owner.OPENAI),
        ("/v1/models/gemini-2.5-pro:generateContent?key=k", [], Owner.GOOGLE),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", [], Owner.GOOGLE),
        ("/v1beta/openai/chat/completions", [b"authorization"], Owner.GOOGLE),
        ("/upload/v1beta/files", [], Owner.GOOGLE),
        ("/v1internal:streamGenerateContent?alt=sse", [b"authorization"], Owner.CODE_ASSIST),
        ("/v1internal:loadCodeAssist", [b"authorization"], Owner.CODE_ASSIST),
        ("/v1internal/operations/o-1", [], Owner.CODE_ASSIST),
        ("/v1internals", [b"authorization"], Owner.OPENAI),
        ("/v1/projects/p/locations/l/publishers/google/models/m:predict", [], Owner.GOOGLE),
        ("/v1beta1/projects/p/locations/l/endpoints/openapi/chat/completions", [], Owner.GOOGLE),
        (
            "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent",
            [b"authorization"],
            Owner.GOOGLE,
        ),
        ("/v1/organization/projects", [b"authorization"], Owner.OPENAI),
        ("/api/chat", [], Owner.OLLAMA),
        ("/api/hello", [], Owner.ANTHROPIC),
        ("/apix", [], Owner.OPENAI),
        ("/v1%2Fmessages", [], Owner.OPENAI),
        ("//v1/messages", [], Owner.ANTHROPIC),
        ("//v1internal:generateContent", [b"authorization"], Owner.CODE_ASSIST),
        ("/v1internal:generateContent/", [b"authorization"], Owner.CODE_ASSIST),
        ("*", [], Owner.OPENAI),
    ],
)
def test_a_path_goes_to_the_provider_whose_api_it_is(
    target: str, head: list[bytes], owner: Owner
) -> None:
    """Rules 1 to 3 of the owners."""
    asker = find_asker(Head((name, b"x") for name in head))
    assert find_owner(target, asker) is owner
    route = table().route(target, asker)
    assert (str(route.upstream.origin), route.target) == (BASE_URLS[owner], target)


def test_prefixes_lead_to_the_catalogues_urls() -> None:
    """The prefix is stripped and ``/v1`` joined once, as in a table."""
    upstreams = table()
    for target, joined in {
        "/groq/v1/chat/completions": "https://api.groq.com/openai/v1/chat/completions",
        "/openrouter/v1/models": "https://openrouter.ai/api/v1/models",
        "/deepseek/anthropic/v1/messages": "https://api.deepseek.com/anthropic/v1/messages",
        "/anthropic/v1/messages": "https://api.anthropic.com/v1/messages",
        "/zai/chat/completions": "https://api.z.ai/api/paas/v4/chat/completions",
    }.items():
        route = upstreams.route(target)
        assert f"{route.upstream.origin}{route.target}" == joined


def test_with_an_upstream_of_ones_own_nothing_else_takes_a_path() -> None:
    """Not even where that one has the path of a prefix; it can be asked."""
    entry = UpstreamEntry(name="mine", url="http://mine")
    for upstreams in (table(default="http://mine"), table(entry)):
        for target in ("/openai/v1/chat/completions", "/v1/messages", "/api/chat", "/groq/x"):
            route = upstreams.route(target)
            assert (str(route.upstream.origin), route.target) == ("http://mine", target)
    asked = table(default="http://mine", catalogue=True)
    assert asked.route("/groq/v1/models").upstream.name == "groq"
    assert asked.route("/v1/messages").upstream.name == "default"


def test_one_setting_switches_the_catalogue_off() -> None:
    """Then its prefixes are paths that nobody claims; the owners stay."""
    upstreams = table(catalogue=False)
    assert not upstreams.catalogue
    assert upstreams.route("/groq/v1/models").upstream.name == "openai"
    assert upstreams.route("/v1/messages").upstream.name == "anthropic"


@pytest.mark.parametrize(
    ("name", "prefix"), [("groq", "/groq"), ("groq", "/fast"), ("mine", "/groq"), ("x", "/groq/")]
)
def test_a_table_takes_the_place_of_a_row(name: str, prefix: str) -> None:
    """By its name or its prefix; the others are still there."""
    upstreams = table(UpstreamEntry(name=name, prefix=prefix, url="http://mine"))
    assert upstreams.route(f"{prefix.rstrip('/')}/v1/models").upstream.name == name
    assert "groq" not in [row.name for row in upstreams.catalogue]
    assert upstreams.route("/xai/v1/models").upstream.name == "xai"


@pytest.mark.parametrize(
    "target",
    [
        *("/groqx/v1/models", "/GROQ/v1/models", "/groq%2f..%2f@evil.example/", "/groq@evil"),
        *("//evil.example/v1/models", "/\\evil.example", "/%2f%2fevil.example/", "/@evil.example/"),
        *("/https://evil.example/v1", "/http:/evil.example", "/..//evil.example", "/groq.evil/"),
        *("/groq/../../evil.example", "/groq//evil.example/", "/groq/@evil", "/groq/?@evil"),
        *("/v1/messages@evil.example", "/api/..//evil.example:80/", "/v1/../@evil.example"),
    ],
)  # fmt: skip
def test_no_path_names_a_host(target: str) -> None:
    """Whatever it looks like it goes to a host of ours, and the target begins with a slash."""
    route = table().route(target)
    host = route.upstream.origin.host_port_subcomponent
    is_groq = target.startswith(("/groq/", "/groq?"))
    assert host in ({"api.groq.com"} if is_groq else HOSTS)
    assert route.target.endswith(target.removeprefix("/groq") if is_groq else target)
    assert route.target.startswith("/")


@pytest.mark.parametrize(
    ("url", "named", "header", "field"),
    [
        ("https://api.openai.com", None, None, b"authorization"),
        ("https://api.anthropic.com", None, None, b"x-api-key"),
        ("https://generativelanguage.googleapis.com", None, None, b"x-goog-api-key"),
        ("https://eu-aiplatform.googleapis.com", None, None, b"authorization"),
        ("https://r.openai.azure.com", None, None, b"api-key"),
        ("http://gateway", None, None, b"authorization"),
        ("http://gateway", "anthropic", None, b"x-api-key"),
        ("https://api.anthropic.com", None, "authorization", b"authorization"),
        ("http://gateway", None, "api-key", b"api-key"),
    ],
)
def test_a_held_key_goes_out_in_the_header_that_its_provider_wants(
    url: str,
    named: str | None,
    header: Any,
    field: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one field, and the others that hold keys go."""
    monkeypatch.setenv("HELD", "sk-canary")
    config = UpstreamConfig(
        name="a", url=url, provider=named, api_key_env="HELD", api_key_header=header
    )
    [upstream] = build_upstreams(Settings(upstreams=(config,)))
    kept = {name: pair for name, pair in upstream.credentials.items() if pair is not None}
    assert list(kept) == [field]
    [(_, value)] = kept.values()
    assert value == (b"Bearer sk-canary" if field == b"authorization" else b"sk-canary")
    assert len(upstream.credentials) == 4


@pytest.mark.parametrize(
    ("upstream", "settings", "refused"),
    [
        (None, {"port": 11434}, True),
        (None, {"port": 11434, "host": "localhost"}, True),
        ("http://127.0.0.1:4000", {}, True),
        ("http://localhost:4000/v1", {}, True),
        ("http://[::1]:4000", {"host": "::"}, True),
        ("http://0.0.0.0:4000", {}, True),
        ("http://10.0.0.1:4000", {"host": "10.0.0.1"}, True),
        ("http://127.0.0.2:4000", {}, False),
        ("http://127.0.0.1:4001", {}, False),
        ("http://10.0.0.1:4000", {}, False),
        ("http://127.0.0.1:4000", {"host": "10.0.0.1"}, False),
        ("http://h", {"port": 11434}, False),
    ],
)
def test_an_upstream_that_is_our_own_port_is_refused(
    upstream: str | None, settings: dict[str, Any], refused: bool
) -> None:
    """At start, with a sentence that says what it is."""
    chosen = Settings(upstream=upstream, **settings)
    if not refused:
        build_upstreams(chosen)
        return
    with pytest.raises(ConfigurationError, match="traffic port of spantap itself"):
        build_upstreams(chosen)


def test_the_local_ollama_is_for_this_machine_or_for_those_with_a_key() -> None:
    """It asks for no key: on an open port anybody would reach it."""

    def names(**settings: Any) -> list[str]:
        return [upstream.name for upstream in build_upstreams(Settings(**settings))]

    assert "ollama" in names()
    assert "ollama" not in names(host="0.0.0.0")
    assert "ollama" in names(host="0.0.0.0", inbound_keys=["k" * 16])
    open_port = build_upstreams(Settings(host="0.0.0.0"))
    assert open_port.route("/api/chat").upstream.name == "openai"


def test_ollamas_variable_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends Ollama's clients to us: following it would lead back."""
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:4000")
    route = build_upstreams(Settings()).route("/api/chat")
    assert str(route.upstream.origin) == "http://127.0.0.1:11434"
