"""Where a request's head carries credentials, and where it does not (R7)."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from codec.text.jsontext import encode_json
from telemetry.privacy.credentials import MAX_CREDENTIALS
from telemetry.privacy.head_credentials import (
    MAX_PARTS,
    QUERY,
    find_head_credentials,
    is_harmless,
    read_fields,
)
from tests.call_count import count_calls

if TYPE_CHECKING:
    from telemetry.privacy.credentials import Credentials

KEY = "sk-planted-canary"
WORD = "hunterhunter"


def find(*fields: tuple[str, str]) -> Credentials:
    return find_head_credentials(fields)


NAMED: dict[str, tuple[str, str]] = {
    "a scheme": ("authorization", f"Bearer {KEY}"),
    "a key": ("api-key", KEY),
    "Google's": ("x-goog-api-key", KEY),
    "pass": ("x-pass", KEY),
    "pwd": ("x-pwd", KEY),
    "sig": ("x-sig", KEY),
    "a cookie": ("cookie", f"a=b; session={KEY}; c=d"),
    "user and password": (
        "authorization",
        "Basic " + base64.b64encode(f"me:{KEY}".encode()).decode(),
    ),
    "JSON": ("x-portkey-config", f'{{"provider": "openai", "api_key": "{KEY}"}}'),
    "JSON, deep": ("x-gateway", f'[{{"targets": [{{"virtualKey": "{KEY}"}}]}}]'),
    "JSON under such a name": ("x-auth", f'{{"value": "{KEY}"}}'),
    "JSON that is recorded": ("x-spantap-metadata", f'{{"access_token": "{KEY}"}}'),
    "a URL": ("referer", f"https://h/?token={KEY}"),
    "a query": (QUERY, f"a=b&key={KEY}"),
    "a query, escaped": (QUERY, "api_key=sk-planted%2Dcanary"),
    "a query, its name escaped": (QUERY, f"api%5Fkey={KEY}"),
    "a query without a name": (QUERY, KEY),
    "a scheme with a parameter": ("authorization", f'Token token="{KEY}"'),
    "a scheme with parameters": (
        "authorization",
        f'OAuth realm="x", oauth_token="{KEY}", oauth_version="1.0"',
    ),
    "Amazon's": (
        "authorization",
        f"AWS4-HMAC-SHA256 Credential=A/x, SignedHeaders=host, Signature={KEY}",
    ),
    "Azure's": ("authorization", f"SharedAccessSignature sr=hub&sig={KEY}&se=1"),
    "Google's old": ("authorization", f"GoogleLogin auth={KEY}"),
    "a scheme and quotes": ("authorization", f'Bearer "{KEY}"'),
    "quotes": ("x-api-key", f'"{KEY}"'),
    "a list in such a header": ("x-auth", f'user="u", key="{KEY}"'),
    "a list in another": ("x-acme", f'user="u", key="{KEY}"'),
    "a list, escaped": ("x-acme", "api%5Fkey=sk-planted%2Dcanary"),
    "a cookie in quotes": ("cookie", f'a=b; session="{KEY}"; c=d'),
    "a cookie, escaped": ("cookie", "session=sk-planted%2Dcanary"),
    "a path": ("x-forwarded-uri", f"/x?token={KEY}"),
    "a path with a bare key": ("x-forwarded-uri", f"/x?{KEY}"),
    "baggage": ("baggage", f"user=u,apikey={KEY};p=1"),
    "a query, of Azure's functions": (QUERY, f"code={KEY}&x=1"),
    "a query, of Amazon": (QUERY, f"X-Amz-Security-Token={KEY}#x"),
    "a query, in humps": (QUERY, f"accessKey={KEY}"),
    "a subprotocol": ("sec-websocket-protocol", f"realtime, openai-insecure-api-key.{KEY}, beta"),
    "a subprotocol of many parts": ("sec-websocket-protocol", f"base64url.bearer.k8s.io.{KEY}"),
    "the subprotocol behind its name": ("sec-websocket-protocol", f"bearer, {KEY}"),
}


@pytest.mark.parametrize("field", NAMED.values(), ids=NAMED)
def test_what_a_name_says_is_a_credential_is_one_everywhere(field: tuple[str, str]) -> None:
    """In content too."""
    assert find(field).redact(f"it says {KEY}!") == "it says __REDACTED__!"
    assert find(field).redact_quote(f"it says {KEY}!") == "it says __REDACTED__!"


OTHERS: dict[str, tuple[str, str]] = {
    "a header": ("x-acme", WORD),
    "a member of a query": (QUERY, f"x={WORD}"),
    "a member of JSON": ("x-portkey-config", f'{{"whatever": "{WORD}"}}'),
    "a subprotocol": ("sec-websocket-protocol", f"realtime, v1.{WORD}"),
    "a list": ("x-acme", f'a=b, whatever="{WORD}"'),
    "a key that is a word": ("authorization", f"Bearer {WORD}"),
}


@pytest.mark.parametrize("field", OTHERS.values(), ids=OTHERS)
def test_what_may_be_one_is_masked_where_a_provider_quotes_it(
    field: tuple[str, str],
) -> None:
    """In content it is a word like others."""
    assert find(field).redact(f"it says {WORD}!") == f"it says {WORD}!"
    assert find(field).redact_quote(f"it says {WORD}!") == "it says __REDACTED__!"


NOTHING: dict[str, tuple[str, str]] = {
    "a harmless header": ("user-agent", WORD),
    "the nonce of a handshake": ("sec-websocket-key", WORD),
    "of an SDK": ("x-stainless-runtime", WORD),
    "an id": ("x-request-id", WORD),
    "a subprotocol without a key": ("sec-websocket-protocol", f"{WORD}, realtime"),
    "a harmless subprotocol": ("sec-websocket-protocol", f"openai-beta.{WORD}"),
    "of a browser": ("sec-ch-ua-platform", WORD),
    "a model": (QUERY, f"model={WORD}&api-version={WORD}"),
    "a URL": ("x-callback", f"https://{WORD}/"),
    "baggage": ("baggage", f"user={WORD}"),
    "what a list says of itself": ("authorization", f"Bearer realm={WORD}, a=ollama"),
    "a short value": ("authorization", "Bearer ollama"),
}


@pytest.mark.parametrize("field", NOTHING.values(), ids=NOTHING)
def test_what_is_known_to_be_harmless_is_none(field: tuple[str, str]) -> None:
    """Errors are to be read."""
    assert find(field).redact_quote(f"it says {WORD} to ollama") == f"it says {WORD} to ollama"


def test_what_is_recorded_is_none_but_for_what_a_name_says() -> None:
    """A client's metadata are told as they are."""
    said = f'{{"team": "{WORD}", "password": "{KEY}"}}'
    found = find(("x-spantap-metadata", said))
    assert found.redact_quote(f"{WORD} {KEY}") == f"{WORD} __REDACTED__"


def test_no_name_of_a_credential_is_harmless() -> None:
    """Whatever its beginning."""
    assert is_harmless("x-stainless-lang")
    assert not is_harmless("x-stainless-api-key")
    assert not is_harmless("x-spantap-key")


def test_too_many_are_not_looked_for() -> None:
    """Then what a provider says is hidden."""
    cookies = "; ".join(f"c{number}=canary-{number:05}" for number in range(MAX_PARTS // 2))
    assert find(("cookie", cookies)).redact_quote("anything") == "__REDACTED__"


HOSTILE: dict[str, list[tuple[str, str]]] = {
    "tiny values": [(f"x-a{number}", "a=1 " * 1_020) for number in range(48)],
    "tiny values, few fields": [(f"x-a{number}", "a=1 " * 240) for number in range(20)],
    "queries": [("referer", "https://h/?" + "a=1&" * 500)] * 40,
    "escapes": [("cookie", "a=" + "%41" * 13_000)] * 5,
    "subprotocols": [("sec-websocket-protocol", "a,b-c.d," * 7_000)] * 4,
    "no JSON": [("x-a", "{" + "a=1," * 1_000)] * 40,
    "JSON": [("x-a", encode_json({f"k{at}": 1 for at in range(600)}))] * 24,
    "JSON that is recorded": [("x-spantap-metadata", "[%s0]" % ('{"k":"12345678"},' * 600))] * 24,
    "words": [(f"x-a{number}", "a " * 2_000 + "b=c") for number in range(60)],
}


@pytest.mark.parametrize("fields", HOSTILE.values(), ids=HOSTILE)
def test_what_is_looked_at_is_bounded_for_all_fields_together(
    fields: list[tuple[str, str]],
) -> None:
    """A worker looks at each error, and its other calls wait (R2); what is small is found first."""
    key = ("authorization", f"Bearer {KEY}")
    found: list[Credentials] = []
    calls = count_calls(lambda: found.append(find(*fields, key)))
    assert calls < 16 * MAX_PARTS
    assert not found[0].are_known
    assert found[0].redact_quote("anything") == "__REDACTED__"
    assert found[0].redact(f"it says {KEY}!") == "it says __REDACTED__!"


@pytest.mark.parametrize(
    "field",
    [
        (QUERY, "&" * 60_000),
        ("cookie", ";" * 60_000),
        ("baggage", "a=," * 20_000),
        ("x-a", "[" + "[]," * 20_000 + "0]"),
    ],
    ids=["a query", "cookies", "a list", "JSON"],
)
def test_nor_is_looked_at_what_is_of_tiny_parts(field: tuple[str, str]) -> None:
    """A worker does this for an error, and its other calls wait (R2)."""
    assert find(field).redact_quote("anything") == "__REDACTED__"


def test_a_long_value_is_read_once() -> None:
    """However it is made: it is no work for a second."""
    assert (
        find(("x-acme", "a=b " + "x" * 60_000), ("x-key", '"' * 60_000 + "=")).redact("so") == "so"
    )


def test_a_long_text_in_json_is_one_value() -> None:
    """Whatever is in it."""
    text = "[{a, b: c}] " * 4_000
    assert find(("x-a", f'{{"text": "{text}"}}')).redact_quote("so") == "so"


def test_of_many_cookies_all_are_masked_in_errors_and_keys_in_content_too() -> None:
    """What is looked for in content is bounded, and the key comes before any cookie."""
    cookies = "; ".join(f"c{number}=canary-{number:05}" for number in range(MAX_CREDENTIALS))
    found = find(("cookie", cookies), ("authorization", f"Bearer {KEY}"))
    last = f"canary-{MAX_CREDENTIALS - 1:05}"
    assert found.redact(f"{KEY} {last}") == f"__REDACTED__ {last}"
    assert found.redact_quote(f"{KEY} {last}") == "__REDACTED__ __REDACTED__"


@pytest.mark.parametrize(
    "value", ["", "{", '{"a": ', "[" * 5_000, "Basic ???", "Basic /w==", "://", "\ufffd;=;"]
)
def test_whatever_a_field_holds_nothing_is_raised(value: str) -> None:
    """A client writes what it likes."""
    for name in ("authorization", "cookie", "x-acme", QUERY):
        find((name, value))


def test_fields_are_read_as_they_were_written() -> None:
    """A line for each; values have colons, and bytes that are no text."""
    assert [*read_fields(b"a:b:c\nd:\xff")] == [("a", "b:c"), ("d", "\ufffd")]
