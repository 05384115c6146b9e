"""``spantap run`` before scripts of real SDKs, with nothing configured."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from telemetry.reading.stored_calls import open_calls
from tests.e2e.spantap import running_upstream
from tests.proxy.running_runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)

ASK_OPENAI = """\
from openai import OpenAI
chat = {"model": "gpt-demo", "messages": [{"role": "user", "content": "Ahoy?"}]}
print(OpenAI(api_key="k").chat.completions.create(**chat).choices[0].message.content)
"""
ASK_ANTHROPIC = """\
from anthropic import Anthropic
chat = {"model": "claude-demo", "messages": [{"role": "user", "content": "Ahoy?"}]}
print(Anthropic(api_key="k").messages.create(max_tokens=99, **chat).content[0].text)
"""
ASK_GOOGLE = """\
from google.genai import Client
client = Client(api_key="k")
print(client.models.generate_content(model="gemini-demo", contents="Ahoy?").text)
"""
ASK_OLLAMA = """\
import ollama
chat = {"model": "llama-demo", "messages": [{"role": "user", "content": "Ahoy?"}]}
print(ollama.chat(**chat).message.content)
"""

SCRIPTS = {
    "OPENAI_BASE_URL": ("ChatCompletion", ASK_OPENAI),
    "ANTHROPIC_BASE_URL": ("Message", ASK_ANTHROPIC),
    "GOOGLE_GEMINI_BASE_URL": ("GenerateContent", ASK_GOOGLE),
    "OLLAMA_HOST": ("Chat", ASK_OLLAMA),
}

ANSWER = "Hello! I am a demo model on your own machine. I never leave it, and I cost nothing.\n"


@pytest.fixture(name="port", scope="module")
def _port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The demo upstream's."""
    with running_upstream(tmp_path_factory.mktemp("upstream")) as port:
        yield port


@pytest.mark.parametrize("is_set", [True, False], ids=["base URL", "upstream"])
@pytest.mark.parametrize("variable", SCRIPTS)
def test_an_sdk_needs_no_configuration(
    variable: str, is_set: bool, port: int, tmp_path: Path
) -> None:
    """Its base URL, where one is set, is the upstream; else it is the proxy's."""
    span_name, script = SCRIPTS[variable]
    url = f"127.0.0.1:{port}" if variable == "OLLAMA_HOST" else f"http://127.0.0.1:{port}"
    if variable == "OPENAI_BASE_URL":
        url += "/v1"
    settings = {variable: url} if is_set else {"SPANTAP_UPSTREAM": f"http://127.0.0.1:{port}"}
    runs = Runs(folder=tmp_path, variables=settings)
    (tmp_path / "script.py").write_text(script)
    command = (sys.executable, "-W", "ignore", str(tmp_path / "script.py"))
    status, out, err = runs.run("run", "--name", "sdk", "--", *command)
    assert (status, out) == (0, ANSWER), err
    with open_calls(runs.store) as reader:
        [summary] = reader.page(9).rows
    assert (summary.name, summary.outcome) == (span_name, "completed")
    assert [run for run, _ in runs.calls()] == ["sdk"]
    assert "spantap: 1 call;" in err
    runs.see_none_left()


def test_a_proxy_for_http_does_not_stand_between(port: int, tmp_path: Path) -> None:
    """The SDKs would send calls for this machine there, too."""
    proxies = dict.fromkeys(("HTTP_PROXY", "ALL_PROXY"), "http://127.0.0.1:1")
    url = {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"}
    runs = Runs(folder=tmp_path, variables=url | proxies)
    runs.run("run", "--", sys.executable, "-W", "ignore", "-c", ASK_OPENAI)
    # The calls came to spantap, whose own way out is by the proxy, as the user wants.
    assert len(runs.calls()) >= 1
