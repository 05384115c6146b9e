"""Bodies that are no JSON, with a key under its name: it is in no span, store, log or news (R7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.telemetry.canaries import body, plant
from tests.telemetry.chat_canaries import ANSWERED, ASKED
from tests.telemetry.test_canary import rules_of, seen

if TYPE_CHECKING:
    from pathlib import Path

KEY = plant("key")
WORDS = plant("words")

BODIES = {
    "a form": f"api_key={KEY}&prompt={WORDS}",
    "a form with parts": f'--b\r\nContent-Disposition: form-data; name="api_key"\r\n\r\n{KEY}\r\n'
    f'--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\n{WORDS}\r\n--b--\r\n',
    "Python's repr": f"{{'api_key': '{KEY}', 'prompt': '{WORDS}'}}",
    "YAML": f"prompt: {WORDS}\npassword: {KEY}\n",
    "headers": f"Authorization: Bearer {KEY}\r\n\r\n{WORDS}",
    "XML": f'<call token="{KEY}">{WORDS}</call>',
    "JSON that broke off": f'{{"prompt": "{WORDS}", "api_key": "{KEY}',
}


@pytest.mark.parametrize("text", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("endpoint", ["chat.completions", "responses", "messages", "embeddings"])
def test_a_request_with_a_key_under_its_name_shows_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, endpoint: str
) -> None:
    """Also where the upstream repeats it in its error."""
    answered = {"error": {"message": f"what is {KEY}?", "type": "invalid", "code": KEY}}
    members: dict[str, Any] = {"asked": text.encode(), "data": body(answered), "status": 400}
    found = seen(tmp_path, caplog, rules_of(), {**members, "endpoint": endpoint})
    assert found == {"words"}


def test_utf_16_is_read_as_such(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The store has its NULs: there no canary is found, whole or in pieces."""
    members = {"asked": f"{{'api_key': '{KEY}'}}".encode("utf-16-le"), "data": body(ANSWERED)}
    seen(tmp_path, caplog, rules_of(), members)
    files = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert KEY.encode("utf-16-le")[:-1] not in files
    assert "api_key".encode("utf-16-le")[:-1] in files


@pytest.mark.parametrize("text", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("status", [200, 400, 502])
def test_an_answer_in_the_place_of_one_hides_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, status: int
) -> None:
    """A gateway that prints what it was configured with."""
    members: dict[str, Any] = {"asked": body(ASKED), "data": text.encode(), "status": status}
    found = seen(tmp_path, caplog, rules_of(), members)
    assert "key" not in found
    assert "words" in found
