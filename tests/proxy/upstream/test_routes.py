"""Which upstream a path belongs to, and what target it gets there.

See ``docs/contract/promises.md#routes``.
"""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from codec.usage_option import UsagePolicy
from proxy.settings.tables import UpstreamConfig
from proxy.upstream.routes import UpstreamTable
from proxy.upstream_entry import UpstreamEntry, check_url
from tests.proxy.harness import relaying, request_bytes
from tests.proxy.raw_client import ask

DEFAULT = "https://api.openai.com"


def table(*configs: UpstreamEntry, default: str = DEFAULT) -> UpstreamTable:
    return UpstreamTable.from_config(default, configs, UsagePolicy.ALWAYS)


@pytest.mark.parametrize(
    ("url", "target", "joined"),
    [
        ("https://h", "/v1/chat/completions", "/v1/chat/completions"),
        ("https://h/", "/v1/chat/completions", "/v1/chat/completions"),
        ("https://h/v1", "/v1/chat/completions", "/v1/chat/completions"),
        ("https://h/v1/", "/v1/chat/completions", "/v1/chat/completions"),
        ("https://h/v1", "/v1", "/v1"),
        ("https://h/v1", "/v1?a=b", "/v1?a=b"),
        ("https://h/v1", "/v1x/models", "/v1/v1x/models"),
        ("https://h/v1", "/chat/completions", "/v1/chat/completions"),
        ("https://h/openai/v1", "/v1/models", "/openai/v1/models"),
        ("https://h/openai/v1", "/openai/v1/models", "/openai/v1/models"),
        ("https://h/openai/v1", "/openai/models", "/openai/v1/openai/models"),
        ("https://h/api", "/api/models", "/api/api/models"),
        ("https://h/api", "/v1/models", "/api/v1/models"),
        ("https://h/v1", "//v1/models", "/v1//v1/models"),
        ("https://h", "/a/../b/%2e%2E/?q=%41&&", "/a/../b/%2e%2E/?q=%41&&"),
        ("https://h", "/x?", "/x?"),
        ("https://h/v1", "*", "*"),
    ],
)
def test_targets_are_appended_raw_and_v1_is_joined_once(url: str, target: str, joined: str) -> None:
    """Rules 2 and 3: nothing is normalised, and everybody's first mistake is forgiven."""
    assert table(default=url).route(target).target == joined


@pytest.mark.parametrize(
    ("target", "name", "joined"),
    [
        ("/groq/v1/chat/completions", "groq", "/openai/v1/chat/completions"),
        ("/groq/openai/v1/chat/completions", "groq", "/openai/v1/chat/completions"),
        ("/groq", "groq", "/openai/v1"),
        ("/groq?x=1", "groq", "/openai/v1?x=1"),
        ("/groq/", "groq", "/openai/v1/"),
        ("/groq/eu", "groq-eu", "/"),
        ("/groq/eu?x=1", "groq-eu", "/?x=1"),
        ("/v1/messages", "whole", "/v1/messages"),
        ("/v1/messages?beta=true", "whole", "/v1/messages?beta=true"),
        ("/v1/messages/count_tokens", "whole", "/v1/messages/count_tokens"),
        ("/groq/eu/v1/models", "groq-eu", "/v1/models"),
        ("/groqx/v1/models", "default", "/groqx/v1/models"),
        ("/v1/models", "default", "/v1/models"),
    ],
)
def test_the_longest_prefix_of_whole_segments_wins_and_is_stripped(
    target: str, name: str, joined: str
) -> None:
    """A prefix is no beginning of a longer segment."""
    upstreams = table(
        UpstreamEntry(name="groq", prefix="/groq", url="https://g/openai/v1"),
        UpstreamEntry(name="groq-eu", prefix="/groq/eu/", url="https://eu"),
        UpstreamEntry(name="whole", prefix="/v1/messages", url="https://w/v1/messages"),
    )
    route = upstreams.route(target)
    assert (route.upstream.name, route.target) == (name, joined)


@pytest.mark.parametrize(
    ("prefix", "url", "provider", "words"),
    [
        ("/a", "https://api.anthropic.com", None, "/a/v1/messages goes to {}/v1/messages"),
        ("/a", "https://gate/v1", "anthropic", "/a/v1/messages goes to https://gate/v1/messages"),
        ("/v1/messages", "https://gate/m", "anthropic", "/v1/messages goes to https://gate/m"),
        (
            "/g",
            "https://generativelanguage.googleapis.com",
            None,
            "/g/v1beta/models/MODEL:generateContent goes to {}/v1beta/models/MODEL:generateContent",
        ),
        (
            "/g",
            "https://gate/openai",
            "google",
            "/g/v1/chat/completions goes to {}/v1/chat/completions",
        ),
        ("/o", "http://10.0.0.7:11434", "ollama", "/o/api/chat goes to {}/api/chat"),
        ("", "https://gate/v1", "groq", "/v1/chat/completions goes to {}/chat/completions"),
        ("", "https://gate", None, "/v1/chat/completions goes to {}/v1/chat/completions"),
    ],
)
def test_where_calls_go_is_said_by_the_providers_own_path(
    prefix: str, url: str, provider: str | None, words: str
) -> None:
    """In ``serve`` and ``check``; a path that is the prefix already is not written twice."""
    entry = UpstreamEntry(name="a", prefix=prefix, url=url, provider=provider)
    assert next(table(entry).describe()) == words.format(url)


def test_a_table_without_prefix_is_the_default() -> None:
    """The default setting then has no use, and is not added."""
    upstreams = table(UpstreamEntry(name="local", url="http://127.0.0.1:8000"))
    assert [upstream.name for upstream in upstreams] == ["local"]


def test_the_host_header_has_a_port_only_where_it_is_not_the_schemes_own() -> None:
    """As clients write it."""
    hosts = [
        table(default=url).route("/").upstream.host_header
        for url in (
            "https://h",
            "https://h:443",
            "https://h:8443",
            "http://[::1]:80",
            "http://[::1]:81",
        )
    ]
    assert hosts == [b"h", b"h", b"h:8443", b"[::1]", b"[::1]:81"]


def test_usage_policy_falls_back_to_the_general_setting() -> None:
    """A table's own policy wins."""
    upstreams = UpstreamTable.from_config(
        DEFAULT,
        [UpstreamEntry(name="a", prefix="/a", url="http://a", usage=UsagePolicy.NEVER)],
        UsagePolicy.IF_ABSENT,
    )
    assert {u.name: u.usage for u in upstreams} == {
        "a": UsagePolicy.NEVER,
        "default": UsagePolicy.IF_ABSENT,
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [(("a", "/x"), ("a", "/y")), (("a", "/x"), ("b", "/x/")), (("a", "/"), ("b", "/"))],
)
def test_two_upstreams_with_one_name_or_prefix_are_refused(
    first: tuple[str, str], second: tuple[str, str]
) -> None:
    """Nobody could say which one is meant."""
    configs = [
        UpstreamEntry(name=name, prefix=prefix, url="http://h") for name, prefix in (first, second)
    ]
    with pytest.raises(ValueError, match="two upstreams have the"):
        table(*configs)


@pytest.mark.parametrize(
    "url",
    [
        "api.openai.com",
        "ftp://h",
        "https://",
        "https://user:secret@h",
        "https://h?x=1",
        "https://h/#f",
        "https://h/a b",
        "http://h/ a",
        "http://h/\r\nX-A: 1",
        "http://h/\x00",
        "http://h\t/",
        "https://h:99999",
        "https://h:port",
        "",
    ],
)
def test_what_is_no_base_url_is_refused_without_telling_its_password(url: str) -> None:
    """One clear sentence, and no credential in it (R7)."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words are checked below
        check_url(url)
    assert "secret" not in str(caught.value)


def test_a_held_key_replaces_the_clients_and_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """``api_key_env`` names a variable; the value is in no representation (R7)."""
    monkeypatch.setenv("DEMO_KEY", "sk-canary")
    upstream = (
        table(UpstreamEntry(name="a", url="http://a", api_key_env="DEMO_KEY")).route("/").upstream
    )
    assert upstream.credentials[b"authorization"] == (b"Authorization", b"Bearer sk-canary")
    assert "canary" not in repr(upstream)


def test_a_key_variable_that_is_not_set_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """At start, not with the first request."""
    monkeypatch.delenv("DEMO_KEY", raising=False)
    with pytest.raises(ValidationError, match="DEMO_KEY"):
        UpstreamConfig(name="a", url="http://a", api_key_env="DEMO_KEY")


def test_white_space_around_a_key_is_not_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """``KEY=$(cat file)`` and env files leave some; in a header it would be a second line."""
    monkeypatch.setenv("DEMO_KEY", " sk-canary\r\n")
    upstream = (
        table(UpstreamEntry(name="a", url="http://a", api_key_env="DEMO_KEY")).route("/").upstream
    )
    assert upstream.credentials[b"authorization"] == (b"Authorization", b"Bearer sk-canary")
    assert upstream.credentials is upstream.credentials


@pytest.mark.parametrize(
    "key",
    [
        "sk-canary\u00e9",
        "sk-canary\r\nX-Other: 1",
        "sk-\tcanary",
        "canary\x7f",
        "\udcff-canary",
        " \n",
    ],
)
def test_a_key_that_no_header_can_hold_is_refused_without_being_told(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At start, and the sentence names the variable alone (R7)."""
    monkeypatch.setenv("DEMO_KEY", key)
    with pytest.raises(ValidationError, match="DEMO_KEY") as caught:
        UpstreamConfig(name="a", url="http://a", api_key_env="DEMO_KEY")
    assert "canary" not in str(caught.value)


def test_a_prefix_must_begin_with_a_slash() -> None:
    """Otherwise it could never match."""
    with pytest.raises(ValidationError, match="slash"):
        UpstreamConfig(name="a", url="http://a", prefix="x")


async def test_what_is_remembered_of_a_target_is_remembered_with_its_method() -> None:
    """One is observed and the other is not, in whatever order they come."""
    async with relaying() as (_, running):
        for method in (b"PUT", b"POST", b"PUT", b"POST"):
            assert (await ask(running.address, request_bytes(method=method))).clean
        assert [exchange.method for exchange in running.sink.exchanges] == ["POST", "POST"]
