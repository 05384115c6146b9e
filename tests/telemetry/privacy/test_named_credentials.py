"""Credentials under their names in bodies that are no JSON, and in what providers say (R7)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.privacy.body_credentials import find_body_credentials, redact_named
from telemetry.privacy.json_strings import REDACTED
from telemetry.privacy.named_credentials import MAX_LOOKED_NAMES

KEY = "canary/0123456789"
ESCAPED = "canary%2F0123456789"
PART = '--b\r\nContent-Disposition: form-data; name="{}"{}\r\n\r\n' + KEY + "\r\n--b--\r\n"

NAMES = ["api_key", "apiKey", "api-key", "OPENAI_API_KEY", "Authorization", "access_token"]
NAMES += ["token", "key", "password", "client_secret", "x-api-key", "connection_string", "auth"]

FORMS = {
    "a form": "model=m&{}=" + ESCAPED + "&prompt=hi",
    "a form's first": "{}=" + KEY,
    "a form of objects": "litellm[{}]=" + KEY + "&b=c",
    "JSON in a form": "payload=%7B%22{}%22%3A%22" + ESCAPED + "%22%2C%22b%22%3A1%7D",
    "a part": PART.replace("{}", "{}", 1).replace("{}\r", "\r", 1),
    "a part with a type": PART.replace("{}\r", "\r\nContent-Type: text/plain\r", 1),
    "Python's repr": "{{'model': 'm', '{}': '" + KEY + "', 'n': 1}}",
    "Python's repr with quotes": "{{'{}': \"" + KEY + '"}}',
    "arguments": "create(model='m', {}='" + KEY + "')",
    "a hash of Ruby": "{{:{} => '" + KEY + "'}}",
    "JavaScript": "{{model: 'm', {}: `" + KEY + "`}}".replace("`", '"'),
    "JSON that broke off": '{{"model": "m", "{}": "' + KEY,
    "JSON with a comma": '{{"{}":"canary\\/0123456789",}}',
    "JSON in JSON": '{{"a": "{{\\"{}\\": \\"' + KEY + '\\"}}",}}',
    "YAML": "model: m\n{}: " + KEY + "\n",
    "YAML in a list": "- {}: " + KEY + "\n",
    "YAML with quotes": "model: m\n'{}': \"" + KEY + '"\n',
    "a header": "Host: h\r\n{}: Bearer " + KEY + "\r\n\r\n",
    "a variable": "export {}=" + KEY + "\n",
    "an attribute": '<call model="m" {}="' + KEY + '"/>',
    "an element": "<call><{0}>" + KEY + "</{0}></call>",
    "an element of a namespace": "<call><n:{0}>" + KEY + "</n:{0}></call>",
    "an element with attributes": '<call><{0} type="s">\n ' + KEY + "\n</{0}></call>",
    "an element's CDATA": "<call><{0}><![CDATA[" + KEY + "]]></{0}></call>",
    "bytes of Python": "{{'model': 'm', '{}': b'" + KEY + "'}}",
    "headers of Python": "headers=[(b'host', b'h'), (b'{}', b'Bearer " + KEY + "')]",
    "a block of YAML": "model: m\n{}: |\n  " + KEY + "\nn: 1\n",
    "a folded block of YAML": "model: m\n{}: >-\n  " + KEY + "\nn: 1\n",
    "a part of objects": PART.replace("{}", "litellm[{}]", 1).replace("{}\r", "\r", 1),
    "a part with a path": PART.replace("{}", "litellm.{}", 1).replace("{}\r", "\r", 1),
    "a part in single quotes": "--b\r\nContent-Disposition: form-data; name='{}'\r\n\r\n"
    + KEY
    + "\r\n--b--\r\n",
    "TOML": '[a]\n{} = "' + KEY + '"\n',
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_credential_is_masked_under_its_name(form: str, encoding: str) -> None:
    """Whatever the body is; as the body stands in a span, where UTF-16 has NULs."""
    for name in NAMES:
        body = form.format(name).encode(encoding)
        masked = find_body_credentials(None, body).redact(body.decode("utf-8", "replace"))
        plain = masked.replace("\0", "").replace("\\/", "/").replace("%2F", "/")
        assert KEY not in plain
        assert "0123456789" not in plain
        assert REDACTED in masked
        assert masked != REDACTED


STAY = [
    "my password: is not here, the token: too, and the key: nothing",
    "The keyboard: mechanical01 has a monkey=business01",
    "max_tokens=1234567890&prompt_cache_key=user-12345678",
    "Password: ",
    "prompt=tell+me+about+keys&model=gpt-4o-2024-08-06",
    "1\n00:00:01,000 --> 00:00:02,000\nThe secret: it works.\n",
    "tokens: 123456789012345678",
    "key",
    'required: ["token", "another_name", "password"], ["key", "of a piano"]',
    'getattr(self, "token", missing_value), parse("password", "some value")',
    "<p>key</p> > quoted words of somebody",
]


@pytest.mark.parametrize("text", STAY)
def test_words_that_only_look_like_it_stay(text: str) -> None:
    """Prose, other names, values that are words."""
    assert not find_body_credentials(None, text.encode())


SAID = {
    "Incorrect API key provided: sk-ab***yz. You can find it at https://h/account/api-keys.": 0,
    "Unrecognized key: 'stream_options_2024'": 0,
    "Invalid value for token: expected string, got 'a_long_name_of_5'": 0,
    "body.password: field required (type=value_error.missing)": 0,
    '{"error": {"code": "invalid_api_key", "message": "No key: none", "param": "api_key"}}': 0,
    '{"usage": {"token": 123456789012, "prompt_token": 5}, "thoughtSignature": "AbCd0123456"}': 0,
    f"<h1>401</h1><p>api_key={KEY} is not valid</p>": 1,
    f"Unknown request: {{'model': 'm', 'api_key': '{KEY}'}}": 1,
    f"You sent Authorization: Bearer {KEY}, which has expired": 1,
    f'{{"error": {{"message": "bad", "request": {{"api_key": "{KEY}"}}}}}}': 1,
    f"The API key: {KEY}. Try another": 1,
}


@pytest.mark.parametrize(("words", "count"), SAID.items())
def test_what_a_provider_quotes_is_masked(words: str, count: int) -> None:
    """Under its name, whoever's it is; words about names stay."""
    assert redact_named(words) == words.replace(KEY, REDACTED)
    assert redact_named(words).count(REDACTED) == count


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_is_looked_at(before: str, behind: str) -> None:
    """Nothing is raised, and what has no name is not masked."""
    find_body_credentials(None, f"{before}token: '{behind}".encode("utf-8", "surrogatepass"))
    redact_named(before + "=" + behind)


@pytest.mark.parametrize(
    "piece",
    ["key", "key=", "key=a&", 'name="key"', 'name="key"\r\na\r\n', "key\\\\\\\\", "key   ", "a_-",
     "key: ", "key='", 'key="\\', "key: bearer ", "\0k\0e\0y\0=", "<key>", "<key ", "<a:key>",
     "('key',", "key: |\n  ", "secret%3D", "%%%%"],
)  # fmt: skip
def test_the_work_is_linear(piece: str) -> None:
    """Ten times a hostile body takes some ten times as long, and not a hundred."""

    def measure(size: int) -> float:
        text = (piece * (size // len(piece))).encode()
        began = time.process_time()
        find_body_credentials(None, text)
        return time.process_time() - began

    few = min(measure(200_000) for _ in range(2))
    assert measure(2_000_000) < 40 * few + 0.1


def test_more_names_than_are_looked_at_hide_the_text() -> None:
    """Nobody knows what stands behind the others."""
    text = "key=a\n" * (MAX_LOOKED_NAMES + 1)
    assert find_body_credentials(None, text.encode()).redact("anything") == REDACTED
