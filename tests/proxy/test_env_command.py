"""``spantap env``: what it prints, and what a shell makes of it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.e2e.processes import wait_until
from tests.e2e.spantap import PROGRAM
from tests.proxy.running_runs import ASK, Runs
from tests.proxy.test_run_command import _upstream, serve, wait_for  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(name="runs")
def _runs(tmp_path: Path) -> Runs:
    """Nothing is set, and nothing runs."""
    return Runs(folder=tmp_path)


def exports(out: str) -> dict[str, str]:
    """The variables, read by a real shell."""
    script = f"{out}\nenv -0"
    env = subprocess.run(
        ["sh", "-ec", script], env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=True
    )
    pairs = (pair.partition("=") for pair in env.stdout.decode().split("\0") if pair)
    return {name: text for name, _, text in pairs if name.isupper() and name != "PWD"}


def test_without_a_proxy_the_default_address_is_printed(runs: Runs) -> None:
    """And standard error says so; the SDKs whose base URL only a running proxy has are left out."""
    status, out, err = runs.run("env", SPANTAP_PORT="4567", SPANTAP_HOST="0.0.0.0")
    found = exports(out)
    assert status == 0
    assert found["OPENAI_BASE_URL"] == "http://127.0.0.1:4567/v1"
    assert found["ANTHROPIC_BASE_URL"] == found["OLLAMA_HOST"] == "http://127.0.0.1:4567"
    assert "GROQ_BASE_URL" not in found
    assert err.startswith(f"spantap env: no proxy runs on {runs.store}: these are for the default")


def test_base_urls_of_one_s_own_are_not_taken_away(runs: Runs) -> None:
    """Without a proxy nothing would pass calls on to them; a key in one is not shown (R7)."""
    mine, secret = "https://gateway.example/v1", "https://user:canary@gateway.example"
    _, out, err = runs.run("env", OPENAI_BASE_URL=mine, ANTHROPIC_BASE_URL=secret)
    assert not {"OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL"} & exports(out).keys()
    assert f"OPENAI_BASE_URL is left as it is, {mine}" in err
    assert "OPENAI_API_BASE" not in err  # which is not set itself
    assert "canary" not in out + err


@pytest.mark.parametrize("name", ["", 'it\'s $HOME `id` \\ "x"'])
def test_a_shell_s_commands_go_through_the_proxy_that_runs(
    name: str, upstream: str, runs: Runs
) -> None:
    """Under any name; what the user's variables said is where they go on to."""
    runs.variables = {"OPENAI_BASE_URL": f"{upstream}/v1"}
    with serve(runs) as server:
        wait_for(server, runs)
        script = f'eval "$({PROGRAM} env --name "$NAME")"; exec {sys.executable} -Sc "$ASK"'
        variables = {"NAME": name, "ASK": f"{ASK}print(ask())"}
        done = subprocess.run(
            ["sh", "-ec", script],
            env=runs.environment | variables,
            capture_output=True,
            text=True,
            check=True,
        )
        assert (done.stdout, done.stderr) == ("200\n", "")
        wait_until(lambda: bool(runs.calls()), 10, "a call")
        assert runs.calls() == [(name or None, "gpt-demo")]
        found = exports(runs.run("env")[1])
        assert found["GROQ_BASE_URL"].startswith(found["OLLAMA_HOST"] + "/~to/")
        assert server.end() == 0
    assert "ERROR" not in server.output


def test_a_proxy_of_a_run_is_told_to_end_with_it(upstream: str, runs: Runs) -> None:
    """Its address is good for as long."""
    runs.variables = {"SPANTAP_UPSTREAM": upstream}
    process = runs.start_python("print('up')\ntime.sleep(3)")
    _, out, err = runs.run("env")
    assert exports(out)["OLLAMA_HOST"].startswith("http://127.0.0.1:")
    assert "belongs to `spantap run`, and ends with it" in err
    runs.end(process)
