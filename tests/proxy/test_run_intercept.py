"""``spantap run --intercept``: what its command sees, what is recorded, what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.processes import wait_until
from tests.e2e.spantap import running_upstream
from tests.proxy.outside import Outside, outside
from tests.proxy.running_runs import Runs
from tests.proxy.test_run_command import serve, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(120)

CALL = """\
import json, os, ssl, sys, time, urllib.error, urllib.request
def call(host="api.openai.com", path="/v1/chat/completions", ca=None):
    chat = {"model": "gpt-demo", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    heads = {"Content-Type": "application/json", "Authorization": "Bearer sk-none"}
    request = urllib.request.Request(f"https://{host}{path}", json.dumps(chat).encode(), heads)
    context = ssl.create_default_context(cafile=ca)
    with urllib.request.urlopen(request, context=context) as answer:
        return answer.status
"""
"""The beginning of programs that call providers by their own names."""


@pytest.fixture(name="plain", scope="module")
def _plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of the demo upstream."""
    with running_upstream(tmp_path_factory.mktemp("upstream")) as port:
        yield port


@dataclass(kw_only=True)
class InterceptedRuns(Runs):
    """Runs behind a forward proxy, by which all names lead to the demo upstream."""

    outside: Outside

    @property
    def outside_ca(self) -> str:
        """The path of the certificate that all trust outside, and none of ours."""
        return str(self.folder / "outside.pem")

    def distrust_us(self, count: int) -> str:
        """A script whose calls trust nothing but the outside; it prints what becomes of each."""
        return f"""
for _ in range({count}):
    try:
        print(call(ca={self.outside_ca!r}))
    except urllib.error.URLError:
        print("failed")
"""

    def intercept(self, script: str, *flags: str, **variables: str) -> tuple[int, str, str]:
        """``spantap run --intercept`` of a script of Python's, to its end."""
        return self.run(*_words(script, flags), **variables)

    def start_script(self, script: str, *flags: str) -> subprocess.Popen[str]:
        """The same, not waited for; it may read from standard input."""
        return self.start(*_words(script, flags), stdin=subprocess.PIPE)


def _words(script: str, flags: tuple[str, ...]) -> tuple[str, ...]:
    return ("run", "--intercept", *flags, "--", sys.executable, "-S", "-c", CALL + script)


@pytest.fixture(name="runs")
def _runs(plain: int, tmp_path: Path) -> Iterator[InterceptedRuns]:
    """Such runs; no process of theirs is left, and no certificate."""
    with outside(plain, tmp_path) as (it, variables):
        runs = InterceptedRuns(folder=tmp_path, variables=variables, outside=it)
        yield runs
        runs.see_none_left()


def read_line(process: subprocess.Popen[str]) -> str:
    """A line that a command prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def say_go(process: subprocess.Popen[str]) -> None:
    """Let a command continue that reads a line."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_calls_to_a_provider_s_own_name_are_recorded(runs: InterceptedRuns) -> None:
    """They leave by the user's own proxy, and the end says which hosts were opened."""
    status, out, err = runs.intercept("print(call(), call())")
    assert (status, out) == (0, "200 200\n"), err
    assert runs.calls() == [("python", "gpt-demo")] * 2
    assert set(runs.outside.hosts) == {"api.openai.com"}
    assert "--intercept opens the TLS of " in err
    assert "opened: api.openai.com (2)" in err


def test_all_other_hosts_are_tunnelled(runs: InterceptedRuns) -> None:
    """Their certificates are their own, and the end counts them."""
    script = f"print(call('packages.other.test', ca={runs.outside_ca!r}))"
    status, out, err = runs.intercept(script)
    assert (status, out) == (0, "200\n"), err
    assert runs.calls() == []
    assert runs.outside.hosts == ["packages.other.test"]
    assert "tunnelled: packages.other.test (1)" in err


def test_requests_that_call_no_observed_api_are_said(runs: InterceptedRuns) -> None:
    """An opened host is no sign of a missing proxy."""
    status, out, err = runs.intercept("""
try:
    call(path="/v1/other")
except urllib.error.HTTPError as error:
    print(error.code)
""")
    assert (status, out) == (0, "404\n"), err
    assert "what it asked of the opened hosts is no API that is observed" in err


def test_a_host_of_the_user_s_is_opened(runs: InterceptedRuns) -> None:
    """By its exact name."""
    status, out, err = runs.intercept(
        "print(call('models.corp.test'))", "--intercept-host", "models.corp.test"
    )
    assert (status, out) == (0, "200\n"), err
    assert runs.calls() == [("python", "gpt-demo")]


def test_a_host_that_may_not_be_opened_is_refused(runs: InterceptedRuns) -> None:
    """Before anything is started."""
    status, out, err = runs.intercept("print('ran')", "--intercept-host", "github.com")
    assert (status, out) == (2, "")
    assert "--intercept-host: 'github.com' is a login, account or code host" in err
    assert not runs.store.exists()


def test_a_program_that_distrusts_us_fails_twice_and_then_passes(runs: InterceptedRuns) -> None:
    """The end names the host, and the way out."""
    status, out, err = runs.intercept(runs.distrust_us(4))
    assert (status, out) == (0, "failed\nfailed\n200\n200\n"), err
    assert "did not trust the certificate for api.openai.com: 2 connections failed" in err
    assert runs.calls() == []


def test_base_urls_of_plain_http_come_as_without(runs: InterceptedRuns, plain: int) -> None:
    """Those of HTTPS stay as they are, and their hosts are opened."""
    script = """
print(os.environ["OPENAI_BASE_URL"].partition("/run/")[0] != "", os.environ["ANTHROPIC_BASE_URL"])
with urllib.request.urlopen(urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"model": "gpt-demo", "messages": [{"role": "user", "content": "hi"}]}).encode(),
)) as answer:
    print(answer.status)
print(call("gateway.corp.test"))
"""
    urls = {
        "OPENAI_BASE_URL": f"http://127.0.0.1:{plain}/v1",
        "ANTHROPIC_BASE_URL": "https://gateway.corp.test",
    }
    status, out, err = runs.intercept(script, **urls)
    assert (status, out) == (0, "True https://gateway.corp.test\n200\n200\n"), err
    assert runs.calls() == [("python", "gpt-demo")] * 2


def test_a_process_that_outlives_the_run_keeps_its_way(runs: InterceptedRuns) -> None:
    """Its pid is named, by later runs too, its calls are tunnelled, and the proxy ends after it."""
    go, done = runs.folder / "go", runs.folder / "done"
    script = f"""
import pathlib, subprocess
if os.fork() == 0:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for one in (0, 1, 2):
        os.dup2(null, one)
    while not os.path.exists({str(go)!r}):
        time.sleep(0.05)
    status = call(ca={runs.outside_ca!r})
    pathlib.Path({str(done)!r}).write_text(str(status))
    os._exit(0)
print(call())
"""
    status, out, err = runs.intercept(script)
    assert (status, out) == (0, "200\n"), err
    assert "The way to the network from there leads through spantap" in err
    _, _, err = runs.intercept("pass")
    assert "still running since an earlier run: process " in err
    assert "The way to the network" not in err
    go.touch()
    wait_until(lambda: done.exists() and done.read_text() == "200", 20, "the call of what stays")
    assert runs.calls() == [("python", "gpt-demo")]


def test_a_worker_that_is_killed_comes_back_at_the_same_port(runs: InterceptedRuns) -> None:
    """The command's environment still holds."""
    script = """
import signal, subprocess
print(call(), flush=True)
input()
print(call(), flush=True)
"""
    process = runs.start_script(script)
    assert read_line(process) == "200"
    [pid] = runs.pids("proxy.processes.worker")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: runs.pids("proxy.processes.worker") not in ([], [pid]), 20, "a worker")
    say_go(process)
    status, out, err = runs.end(process)
    assert (status, out) == (0, "200\n"), err
    assert "opened: api.openai.com (" in err


def test_two_runs_at_once_have_their_own_secrets(runs: InterceptedRuns) -> None:
    """They share the proxy; each one's calls are its own."""
    script = "print(os.environ['HTTPS_PROXY'], flush=True); input(); print(call())"
    first = runs.start_script(script, "--name", "one")
    second = runs.start_script(script, "--name", "two")
    assert read_line(first) != read_line(second)
    for process in (first, second):
        say_go(process)
        status, out, err = runs.end(process)
        assert (status, out) == (0, "200\n"), err
    assert sorted(runs.calls()) == [("one", "gpt-demo"), ("two", "gpt-demo")]


def test_a_proxy_that_runs_already_intercepts(runs: InterceptedRuns) -> None:
    """It serves its other calls as before, and stays."""
    with serve(runs, SPANTAP_WORKERS="2") as server:
        wait_for(server, runs)
        status, out, err = runs.intercept("print(call())")
        assert (status, out) == (0, "200\n"), err
        assert "through the proxy that runs already" in err
        assert runs.calls() == [("python", "gpt-demo")]
        assert server.end() == 0


def test_a_proxy_at_another_address_is_an_exception_from_http_proxies(
    runs: InterceptedRuns,
) -> None:
    """Base URLs that lead there would leave by the user's own proxy for HTTP."""
    with serve(runs, SPANTAP_HOST="127.0.0.2") as server:
        wait_for(server, runs)
        script = "print(os.environ['NO_PROXY'], os.environ['OLLAMA_HOST'])"
        _, out, err = runs.intercept(script, HTTP_PROXY="http://127.0.0.1:9")
        assert out.startswith("127.0.0.2,localhost,127.0.0.1,::1 http://127.0.0.2:"), (out, err)
        assert server.end() == 0


def test_a_proxy_that_was_killed_is_said(runs: InterceptedRuns) -> None:
    """A command that has lost its way need not be to blame."""
    process = runs.start_script("print('up', flush=True); input()")
    assert read_line(process) == "up"
    [pid] = runs.pids("proxy.processes.supervisor")
    os.kill(pid, signal.SIGKILL)
    say_go(process)
    status, _, err = runs.end(process)
    assert status == 0
    assert f"the proxy (process {pid}) was gone or stood still at the end" in err


def test_the_secret_and_the_key_are_kept_nowhere(runs: InterceptedRuns) -> None:
    """Neither in the store nor in the log; the certificates are gone after the run."""
    script = "print(os.environ['HTTPS_PROXY'], os.environ['NODE_EXTRA_CA_CERTS']); call()"
    status, out, err = runs.intercept(script, SPANTAP_LOG_LEVEL="debug", SPANTAP_RAW="all")
    assert status == 0, err
    url, certificates = out.split()
    secret = url.partition("spantap:")[2].partition("@")[0]
    assert len(secret) > 20
    for path in runs.folder.iterdir():
        if path.is_file():
            data = path.read_bytes()
            assert secret.encode() not in data, path
            assert b"PRIVATE KEY" not in data, path
    assert secret not in err
    assert not Path(certificates).exists()


def test_a_run_that_is_killed_leaves_nothing(runs: InterceptedRuns) -> None:
    """Its command keeps its way as long as it runs, and the proxy ends after it."""
    process = runs.start_script("print(os.getpid(), flush=True); time.sleep(600)")
    command = int(read_line(process))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert runs.pids("proxy.processes.supervisor")
    os.kill(command, signal.SIGKILL)
    runs.end(process)
    runs.see_none_left()


def test_an_upstream_and_interception_exclude_each_other(runs: InterceptedRuns) -> None:
    """Interception relays to the host that the program names."""
    status, _, err = runs.intercept("", "--upstream", "http://127.0.0.1:9")
    assert status == 2
    assert "leave out --upstream" in err


def test_exceptions_from_proxies_are_said(runs: InterceptedRuns) -> None:
    """Their calls do not come here."""
    _, _, err = runs.intercept("pass", NO_PROXY="api.openai.com,corp.test")
    assert "calls to api.openai.com are not recorded, because of your NO_PROXY" in err
