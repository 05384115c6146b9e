"""``telemetry.observing.heads``: which fields of heads are recorded, and how they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from telemetry.errors import ConfigurationError
from telemetry.observing import masked_heads
from telemetry.observing.encryption import OWN_CIPHER
from telemetry.observing.heads import (
    ANSWER_FIELDS,
    MAX_ADDED_NAMES,
    MAX_FIELDS,
    MAX_NAME_CHARS,
    REQUEST_FIELDS,
    AllowedFields,
)
from telemetry.observing.masked_heads import MAX_FIELD_BYTES
from telemetry.observing.observer import Observer
from telemetry.privacy.credential_names import looks_like_credential
from telemetry.privacy.json_strings import REDACTED
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import ANSWER, begin, exchange_frames

if TYPE_CHECKING:
    from collections.abc import Mapping

Fields = list[tuple[str, str]]

KEY = "sk-planted-canary-0123456789"
"""Looks like a key, and no head carries it as a credential."""

ANSWERED: Fields = [
    ("content-type", "application/json"),
    ("x-request-id", "req_1"),
    ("x-ratelimit-remaining-tokens", "149984"),
    ("anthropic-ratelimit-unified-5h-utilization", "0.42"),
    ("retry-after", "20"),
    ("openai-processing-ms", "312"),
    ("server-timing", "gfet4t7; dur=812"),
    ("cf-ray", "8f1e2d3c4b5a6978-FRA"),
    ("openai-version", "2020-10-01"),
    ("x-ms-region", "West Europe"),
]

ASKED: Fields = [
    ("content-type", "application/json"),
    ("user-agent", "OpenAI/Python 2.8.0"),
    ("anthropic-beta", "oauth-2025-04-20,interleaved-thinking-2025-05-14"),
]

NOT_ALLOWED = (
    *("authorization", "x-api-key", "api-key", "x-goog-api-key", "proxy-authorization"),
    *("cookie", "set-cookie", "openai-organization", "openai-project"),
    *("anthropic-organization-id", "x-goog-user-project", "chatgpt-account-id"),
    *("x-forwarded-for", "forwarded", "x-real-ip", "via", "host", "origin", "referer", "from"),
    *("x-amz-security-token", "x-codex-turn-state", "x-served-by", "location", "x-other"),
)
"""Names of credentials, cookies, organisations, projects and addresses, and of nothing at all."""


def read(
    answered: Fields = ANSWERED, asked: Fields = ASKED, allowed: AllowedFields | None = None
) -> Mapping[str, Any]:
    """``metadata.headers`` of a call with these heads."""
    frames = exchange_frames(ANSWER, headers=answered, request_headers=asked)
    return observe(frames, Observer(allowed_fields=allowed)).heads


def test_fields_that_help_are_recorded_of_both_heads() -> None:
    """By their names, in the order in which they came."""
    assert read() == {"request": dict(ASKED), "response": dict(ANSWERED)}
    assert [*read()["response"]] == [name for name, _ in ANSWERED]


def test_a_head_without_such_a_field_has_no_part() -> None:
    """And of two such heads nothing is recorded."""
    assert read([("x-other", "o")]) == {"request": dict(ASKED)}
    assert read([], []) == {}


def test_the_list_names_no_credential() -> None:
    """Nor a cookie, an organisation, a project or an address."""
    harmless = {"fireworks-server-time-to-first-token"}
    listed = REQUEST_FIELDS | ANSWER_FIELDS
    assert {name for name in listed if looks_like_credential(name)} == harmless
    assert listed.isdisjoint(NOT_ALLOWED)
    assert all(name == name.lower() for name in listed)


@pytest.mark.parametrize("name", NOT_ALLOWED)
def test_a_field_that_is_not_in_the_list_is_not_recorded(name: str) -> None:
    """Whatever a frame has."""
    planted = [(name, KEY)]
    assert KEY not in str(read([*ANSWERED, *planted], [*ASKED, *planted]))


@pytest.mark.parametrize("name", sorted(REQUEST_FIELDS | ANSWER_FIELDS))
def test_what_looks_like_a_key_is_masked_in_every_field(name: str) -> None:
    """Without any setting, and the rest of the value stays."""
    planted = [(name, f"before {KEY} behind")]
    shown = read(planted, planted)
    assert {text for part in shown.values() for text in part.values()} == {
        f"before {REDACTED} behind"
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("api_key=planted-canary-01", f"api_key={REDACTED}"),
        ('{"password": "planted-canary-01"}', f'{{"password": "{REDACTED}"}}'),
        ("Bearer planted-canary-0123456789", REDACTED),
        ("x eyJplantedcanary.eyJplantedcanary.planted", f"x {REDACTED}"),
        ("AKIAPLANTEDCANARY012", REDACTED),
        ("ghp_plantedcanaryplantedcanary", REDACTED),
    ],
)
def test_keys_are_masked_in_any_form(value: str, shown: str) -> None:
    """By a name before them, or by their own form."""
    fields = [("x-request-id", value), ("user-agent", value)]
    assert read(fields, fields) == {
        "request": {"x-request-id": shown, "user-agent": shown},
        "response": {"x-request-id": shown},
    }


@pytest.mark.parametrize(
    "beginning",
    [
        *("sk-", "sk_live_", "rk_test_", "pk_live_", "AIzaPlanted", "github_pat_", "glpat-"),
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "gsk_", "hf_", "r8_", "xai-", "pplx-", "csk-"),
        *("nvapi-", "xoxb-", "bearer ", "eyJplanted-1.eyJplanted-1."),
    ],
)
def test_every_form_of_a_key_is_noticed(beginning: str) -> None:
    """Those that the ready-made pattern finds; a quick look comes before it."""
    key = beginning + "plantedcanaryplantedcanaryplanted"
    assert read([("cf-ray", f"r {key}")], []) == {"response": {"cf-ray": f"r {REDACTED}"}}


@pytest.mark.parametrize(
    "name",
    [
        *("key", "api_key", "access-token", "client_secret", "password", "passwd", "auth"),
        *("Authorization", "bearer", "connection-string", "cookie", "credentials", "jwt", "sig"),
        *("passphrase", "pwd"),
    ],
)
def test_every_name_of_a_credential_is_noticed(name: str) -> None:
    """However short its value."""
    assert read([("cf-ray", f"{name}=canary01")], []) == {
        "response": {"cf-ray": f"{name}={REDACTED}"}
    }


def test_values_that_were_looked_at_are_remembered_without_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And not for ever."""
    remembered: set[str] = set()
    monkeypatch.setattr(masked_heads, "_plain_values", remembered)
    monkeypatch.setattr(masked_heads, "_MAX_PLAIN_VALUES", 10)
    read([("cf-ray", f"planted {KEY}"), ("x-ms-region", "West Europe 1")], ASKED)
    assert "West Europe 1" in remembered
    assert not any(KEY in value for value in remembered)
    for number in range(50):
        read([("x-ms-region", f"West Europe {number}")], [])
        assert len(remembered) <= 12


def test_what_the_request_carries_is_masked_where_a_field_quotes_it() -> None:
    """A value of an unknown header is masked in the answer alone, because it may be a word."""
    secret, other = "hunter-2-hunter-2", "hidden-3-hidden-3"
    sealed = OWN_CIPHER.encrypt(f"authorization:Bearer {secret}\nx-other:{other}".encode())
    quoting = [("x-request-id", f"{secret}/{other}")]
    frames = exchange_frames(ANSWER, headers=quoting)
    frames[0] = begin(1, headers=tuple(quoting), encrypted=sealed)
    assert observe(frames).heads == {
        "request": {"x-request-id": f"{REDACTED}/{other}"},
        "response": {"x-request-id": f"{REDACTED}/{REDACTED}"},
    }


def test_repeated_fields_are_joined_and_masked() -> None:
    """As a list is continued (RFC 9110, section 5.3)."""
    fields = [("server-timing", "a;dur=1"), ("cf-ray", "r"), ("server-timing", f"b;desc={KEY}")]
    wanted = {"server-timing": f"a;dur=1, b;desc={REDACTED}", "cf-ray": "r"}
    assert read(fields, []) == {"response": wanted}


def test_of_many_fields_the_first_are_recorded() -> None:
    """The number of the others is known, and a further value of a recorded one counts (R5)."""
    many = [(f"x-ratelimit-limit-{number}", f"{KEY}{number}") for number in range(10_000)]
    repeated = [("x-ratelimit-limit-0", "1")] * 10_000
    shown = read([*many, *repeated], [])
    assert len(shown["response"]) == MAX_FIELDS
    assert shown["left_out"] == 10_000 - MAX_FIELDS
    assert KEY not in str(shown)
    assert len(str(shown)) < 2 * MAX_FIELDS * MAX_FIELD_BYTES


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a" * MAX_FIELD_BYTES, "a" * MAX_FIELD_BYTES),
        ("a" * (MAX_FIELD_BYTES + 1), "…"),
        ("word " * 60, "word " * 50 + "…"),
        ("beta-1," * 40, "beta-1," * 36 + "…"),
        (f"{'a' * 240} {KEY}", f"{'a' * 240} {REDACTED}"),
        (f"{'a ' * 125}{KEY}", "a " * 125 + "…"),
    ],
)
def test_a_long_value_is_cut_where_no_half_secret_is_left(value: str, shown: str) -> None:
    """After it was masked, before a word or a member of a list."""
    assert read([("cf-ray", value)], []) == {"response": {"cf-ray": shown}}
    assert len(shown.encode()) <= MAX_FIELD_BYTES


@pytest.mark.parametrize(
    ("sent", "shown"), [("Zürich".encode(), "Zürich"), (b"Z\xfcrich", "Zürich")]
)
def test_a_field_that_is_not_ascii_is_read_as_utf_8_if_possible(sent: bytes, shown: str) -> None:
    """Else as Latin-1. A key beside it is masked."""
    value = sent.decode("latin-1")
    assert read([("x-ms-region", value)], []) == {"response": {"x-ms-region": shown}}
    with_key = read([("x-ms-region", f"{value} {KEY}")], [])
    assert with_key == {"response": {"x-ms-region": f"{shown} {REDACTED}"}}
    long = read([("x-ms-region", "ü" * 300)], [])["response"]["x-ms-region"]
    assert len(long.encode()) <= MAX_FIELD_BYTES


def test_the_setting_adds_names_of_both_heads() -> None:
    """In any case; ``default`` adds nothing."""
    allowed = AllowedFields.build(("default", " X-Team "))
    fields = [("x-team", "blue"), ("x-other", "o"), ("cf-ray", "r")]
    assert read(fields, fields, allowed) == {
        "request": {"x-team": "blue"},
        "response": {"x-team": "blue", "cf-ray": "r"},
    }
    assert b"x-team" in allowed.names_asked & allowed.names_answered


def test_the_setting_may_record_none() -> None:
    """Neither is any copied."""
    allowed = AllowedFields.build(("none",))
    assert read(allowed=allowed) == {}
    assert not allowed.names_asked | allowed.names_answered
    assert not allowed.prefixes_answered
    exchange = observe(exchange_frames(ANSWER, headers=ANSWERED), Observer(allowed_fields=allowed))
    assert exchange.request_id == "req_1"
    assert "retry-after" in exchange.rate_limits


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("x-api-key",), "looks like a credential"),
        (("set-cookie",), "looks like a credential"),
        (("x y",), "is not the name of a header"),
        (("",), "is not the name of a header"),
        (("x-team-*",), "is not the name of a header"),
        (("x" * 129,), "is not the name of a header"),
        (("none", "x-team"), "stands alone"),
        (tuple(f"x-{number}" for number in range(MAX_ADDED_NAMES + 1)), "more than"),
    ],
)
def test_a_wrong_name_is_refused(words: tuple[str, ...], complaint: str) -> None:
    """At the start, as in ``[headers]``."""
    with pytest.raises(ConfigurationError, match=complaint):
        AllowedFields.build(words)


def test_a_key_that_is_not_the_calls_own_stands_nowhere_beside_the_fields() -> None:
    """The id of the call, its limits and its agent mask them alike, also without the fields."""
    planted = [("x-request-id", f"r {KEY}"), ("x-ratelimit-note", f"n {KEY}")]
    frames = exchange_frames(ANSWER, headers=planted, request_headers=[("user-agent", f"a {KEY}")])
    alone = exchange_frames(ANSWER, request_headers=[("user-agent", f"a {KEY}")])
    none = Observer(allowed_fields=AllowedFields.build(("none",)))
    assert observe(alone, none).user_agent == f"a {REDACTED}"
    exchange = observe(frames)
    assert exchange.user_agent == f"a {REDACTED}"
    assert exchange.request_id == f"r {REDACTED}"
    assert exchange.rate_limits == {"x-ratelimit-note": f"n {REDACTED}"}


def test_a_field_that_is_found_by_its_beginning_has_a_short_name() -> None:
    """Names are not cut, so a long one is left out of the fields and of the limits (R5)."""
    longest = "x-ratelimit-".ljust(MAX_NAME_CHARS, "n")
    exchange = observe(exchange_frames(ANSWER, headers=[(longest, "1"), (f"{longest}n", "2")]))
    assert exchange.heads["response"] == {longest: "1"} == exchange.rate_limits


def test_the_calls_key_is_masked_in_the_name_of_a_field() -> None:
    """Names come in lower case, whatever the upstream wrote."""
    sealed = OWN_CIPHER.encrypt(b"authorization:Bearer Planted-KEY-0123456789")
    quoting = [("x-ratelimit-left-planted-key-0123456789", "1")]
    frames = exchange_frames(ANSWER, headers=quoting)
    frames[0] = begin(1, encrypted=sealed)
    exchange = observe(frames)
    assert exchange.heads["response"] == {f"x-ratelimit-left-{REDACTED}": "1"}
    assert exchange.rate_limits == exchange.heads["response"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("x-ratelimit-sk-proj-0123456789abcdefghij", f"x-ratelimit-{REDACTED}"),
        (
            "anthropic-ratelimit-ghp_0123456789abcdefghij0123456789abcdef",
            f"anthropic-ratelimit-{REDACTED}",
        ),
        ("x-ratelimit-left-akia0123456789abcdef", REDACTED),
        ("x-ratelimit-remaining-tokens-highest", "x-ratelimit-remaining-tokens-highest"),
    ],
)
def test_what_looks_like_a_key_is_masked_in_the_name_of_a_field(name: str, shown: str) -> None:
    """Also a key of capitals alone, although names come in lower case; other names stay."""
    exchange = observe(exchange_frames(ANSWER, headers=[(name, "1")]))
    assert exchange.heads["response"] == {shown: "1"} == exchange.rate_limits
