"""``spantap run`` as a process: what its command sees, what is recorded, and what is left."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy.launches.programs import read_programs
from telemetry.reading.stored_calls import open_calls
from tests.e2e.processes import ServerProcess, find_free_port, wait_until
from tests.e2e.spantap import PROGRAM, running_upstream
from tests.otlp_sink import HttpSink
from tests.proxy.running_runs import ASK, Runs

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(name="upstream", scope="module")
def _upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the demo upstream."""
    with running_upstream(tmp_path_factory.mktemp("upstream")) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(name="runs")
def _runs(upstream: str, tmp_path: Path) -> Iterator[Runs]:
    """Runs whose calls go to the demo upstream; no process of theirs is left."""
    runs = Runs(folder=tmp_path, variables={"SPANTAP_UPSTREAM": upstream})
    yield runs
    runs.see_none_left()


def serve(runs: Runs, **variables: str) -> ServerProcess:
    """``spantap serve`` on the store of the runs."""
    ports = {"SPANTAP_PORT": str(find_free_port()), "SPANTAP_ADMIN_PORT": str(find_free_port())}
    runs.variables = {**runs.variables, **ports}
    environment = runs.environment | variables
    return ServerProcess([PROGRAM, "serve"], environment=environment, log=runs.folder / "serve.log")


def wait_for(server: ServerProcess, runs: Runs) -> None:
    """Until it serves."""
    server.wait_for(f"http://127.0.0.1:{runs.variables['SPANTAP_ADMIN_PORT']}/readyz", 30)


def test_a_command_s_calls_are_recorded_and_listed(runs: Runs) -> None:
    """Its output is its own; the table goes to standard error; ``traces`` has the same."""
    status, out, err = runs.python("print(ask(), ask('ANTHROPIC_BASE_URL', 'claude-demo'))")
    assert (status, out) == (0, "200 200\n")
    program = Path(sys.executable).name
    assert runs.calls() == [(program, "gpt-demo"), (program, "claude-demo")]
    assert len(re.findall(r"(?:gpt|claude)-demo .* completed ", err)) == 2
    assert f"spantap: 2 calls; `spantap traces --run {program}` lists them" in err
    assert runs.processes() == []  # the run has waited for its proxy
    status, listed, _ = runs.run("traces", "--run", program)
    assert (status, listed.count(" completed ")) == (0, 2)
    _, _, err = runs.run("traces", "--run", "other")
    assert "no call of a run named 'other' is recorded" in err
    assert runs.run("traces", "show", "--run", "x", "0")[0] == 2


def test_quiet_says_nothing_and_leaves_the_exit_status(runs: Runs) -> None:
    """The calls of a command that fails are recorded all the same."""
    assert runs.python("ask()\nsys.exit(7)", "--quiet") == (7, "", "")
    assert len(runs.calls()) == 1


def test_a_proxy_opens_as_many_files_as_it_may_and_its_command_as_before(runs: Runs) -> None:
    """Launches take open files of the supervisor's; the usual limits are 256 and 1,024."""
    script = "import resource; print(*resource.getrlimit(resource.RLIMIT_NOFILE)); input()"
    with subprocess.Popen(
        [
            *("sh", "-c", 'ulimit -Sn 200; exec "$0" "$@"', PROGRAM, "run", "--quiet", "--"),
            *(sys.executable, "-Suc", script),
        ],
        env=runs.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        soft, hard = process.stdout.readline().split()
        [pid] = runs.pids("proxy.processes.supervisor")
        limits = Path(f"/proc/{pid}/limits").read_text()
        process.communicate("\n", timeout=60)
    assert soft == "200"
    assert re.search(rf"(?m)^Max open files +{hard} +{hard} ", limits)


def test_a_run_without_a_call_says_so(runs: Runs) -> None:
    """With what may be the reason."""
    status, out, err = runs.run("run", "--", "echo", "hi", "--name", "x", "--", "y")
    assert (status, out) == (0, "hi --name x -- y\n")
    assert err.startswith("spantap: no call is recorded: none came through")
    assert "echo was given OPENAI_BASE_URL, OPENAI_API_BASE, " in err
    assert "more variables. To try next: start it with --intercept, or find out" in err


def test_a_known_program_without_a_call_is_told_what_to_try(runs: Runs) -> None:
    """What it was given, and the advice of its row, in one line."""
    for name in ("codex", "cline"):
        (runs.folder / name).write_text("#!/bin/sh\n")
        (runs.folder / name).chmod(0o700)
    path = f"{runs.folder}:{runs.environment['PATH']}"
    err = runs.run("run", "--", "codex", PATH=path)[2].splitlines()[-1]
    assert "codex was given -c openai_base_url=http://127.0.0.1:" in err
    assert err.endswith(read_programs()["codex"].advice)
    err = runs.run("run", "--", "cline", PATH=path)[2].splitlines()[-1]
    assert "cline was given no variable that it reads" in err
    assert runs.run("run", "--quiet", "--", "cline", PATH=path) == (0, "", "")


def test_any_name_is_the_calls(runs: Runs) -> None:
    """An empty one is the program's; ``traces`` finds it by what was written."""
    names = (
        ("my job/1 ü", "my job/1 ü"),
        ("..", ".."),
        ("", "sh"),
        (" ", "sh"),
        ("x" * 5000, "x" * 64),
    )
    script = f'exec {sys.executable} -Sc "$0"'
    with serve(runs) as server:
        wait_for(server, runs)
        for name, tag in names:
            command = ("sh", "-c", script, ASK + f"ask(model='{len(name)}')")
            status, _, err = runs.run("run", "--name", name, "--", *command)
            assert status == 0, err
            assert runs.calls()[-1] == (tag, str(len(name)))
        for name, tag in names:
            listed = runs.run("traces", "--run", name.strip() or tag)[1].count(" completed ")
            assert listed == [called for _, called in names].count(tag)


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("nosuch-program",), 127, "cannot start 'nosuch-program': no such program on PATH"),
        (("/dev/null",), 126, "cannot start '/dev/null': it is not an executable file"),
        ((), 2, "name a command: spantap run -- COMMAND …"),
        (("--",), 2, "name a command"),
    ],
)
def test_what_cannot_be_started_starts_no_proxy(
    words: tuple[str, ...], status: int, told: str, runs: Runs
) -> None:
    """And is told clearly, with a shell's exit status."""
    ended, out, err = runs.run("run", *words)
    assert (ended, out) == (status, "")
    assert err.startswith(f"spantap: {told}")
    assert not runs.store.exists()


def test_a_command_that_fails_to_start_leaves_no_proxy(runs: Runs) -> None:
    """Its first line names no interpreter, which is seen too late."""
    script = runs.folder / "script"
    script.write_text("#!/nowhere/python\n")
    script.chmod(0o700)
    status, _, err = runs.run("run", "--", str(script))
    assert (status, runs.processes()) == (126, [])
    assert "interpreter that its first line names is not there" in err


@pytest.mark.parametrize(("script", "status"), [("kill -TERM $$", 143), ("kill -SEGV $$", 139)])
def test_the_exit_status_of_a_killed_command_names_its_signal(
    script: str, status: int, runs: Runs
) -> None:
    """The exit status is 128 and the signal's number, as in a shell."""
    assert runs.run("run", "--quiet", "--", "sh", "-c", script)[0] == status


def test_signals_reach_the_command_and_its_last_call_is_recorded(runs: Runs) -> None:
    """SIGTERM to the run ends the command, and the run tells the rest."""
    script = (
        "import signal\n"
        "def go(*_):\n    ask(model='last')\n    sys.exit(5)\n"
        "signal.signal(signal.SIGTERM, go)\nprint('up')\ntime.sleep(60)"
    )
    process = runs.start_python(script)
    process.terminate()
    status, _, err = runs.end(process)
    assert (status, [model for _, model in runs.calls()]) == (5, ["last"])
    assert "spantap: 1 call;" in err


def test_a_call_that_is_open_at_the_end_is_recorded(runs: Runs) -> None:
    """The client is gone, as the command is; nobody waits for the answer's end."""
    script = (
        "messages = [{'role': 'user', 'content': 'hi'}]\n"
        "chat = {'model': 'gpt-demo-endless', 'stream': True, 'messages': messages}\n"
        "request = urllib.request.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions',"
        " json.dumps(chat).encode())\n"
        "urllib.request.urlopen(request).read(400)\nos._exit(0)"
    )
    began = time.monotonic()
    status, _, err = runs.python(script)
    assert time.monotonic() - began < 20
    assert (status, len(runs.calls())) == (0, 1)
    assert "client_disc" in err


def test_two_runs_at_once_share_a_proxy_and_a_store(runs: Runs) -> None:
    """Whoever comes first may go first; each is told its own calls, though they have one name."""
    waiting = "print('up')\nwhile not os.path.exists({!r}): time.sleep(0.05)\nask(model={!r})"
    go, gone = runs.folder / "go", runs.folder / "gone"
    first = runs.start_python(waiting.format(str(go), "first"))
    second = runs.start_python(waiting.format(str(gone), "second"))
    go.touch()
    status, _, err = runs.end(first)
    assert status == 0
    assert "spantap: 1 call;" in err
    gone.touch()
    status, _, err = runs.end(second)
    assert status == 0
    assert re.match(r"spantap: through the proxy that runs already \(process \d+\)", err)
    assert "spantap: 1 call;" in err
    assert [model for _, model in runs.calls()] == ["first", "second"]
    runs.see_none_left()
    assert runs.python("ask(model='third')")[0] == 0  # the store is free again
    assert len(runs.calls()) == 3


def test_two_runs_that_start_at_once_find_each_other(runs: Runs) -> None:
    """One of them starts the proxy, and none fails."""
    command = ("run", "--", sys.executable, "-Sc", ASK + "print(ask())")
    processes = [runs.start(*command) for _ in range(3)]
    assert [runs.end(process)[:2] for process in processes] == [(0, "200\n")] * 3
    assert len(runs.calls()) == 3


def test_no_proxy_is_left_after_a_kill(runs: Runs) -> None:
    """SIGKILL leaves the command, as of any program that started one, and nothing of ours."""
    process = runs.start_python("print('up')\nask()\nprint('called')\ntime.sleep(8)")
    assert process.stdout is not None
    assert process.stdout.readline() == "called\n"
    process.kill()

    def lives() -> list[str]:
        return [line for line in runs.processes() if "proxy.processes" in line]

    wait_until(lambda: not lives(), 6, f"the end of {lives()}")
    assert len(runs.calls()) == 1
    assert runs.python("ask()")[0] == 0
    runs.end(process)  # the command has its streams until its own end


def test_a_proxy_that_runs_already_is_used_and_stays(runs: Runs) -> None:
    """With its settings, whose store it is; the calls have the run's name."""
    with serve(runs) as server:
        wait_for(server, runs)
        status, out, err = runs.python("print(os.environ['OPENAI_BASE_URL'], ask())", "--name", "n")
        port = runs.variables["SPANTAP_PORT"]
        assert status == 0
        assert re.fullmatch(rf"http://127\.0\.0\.1:{port}/~run/n~~[0-9a-f]+/v1 200\n", out)
        assert err.startswith("spantap: through the proxy that runs already (process ")
        assert "spantap: 1 call;" in err
        assert runs.calls() == [("n", "gpt-demo")]
        status, _, err = runs.python("ask()", "--upstream", "http://127.0.0.1:1")
        assert (status, "its upstreams hold and not --upstream" in err) == (2, True)
        status, _, err = runs.python("ask()", SPANTAP_CONTENT="false")
        assert (status, "does not hide from spans" in err) == (2, True)
        assert len(runs.calls()) == 1
        assert runs.python("ask()")[0] == 0
        assert server.end() == 0
    assert not runs.folder.joinpath("traces.db.door").exists()
    assert "ERROR" not in server.output


def test_a_proxy_that_hides_the_same_suits(runs: Runs) -> None:
    """A run that is told to hide content is not refused by its like."""
    runs.variables = {**runs.variables, "OPENINFERENCE_HIDE_INPUTS": "true"}
    with serve(runs) as server:
        wait_for(server, runs)
        assert runs.python("ask()")[0] == 0


@pytest.mark.parametrize("is_running", [False, True])
def test_base_urls_that_are_set_are_the_upstreams(
    is_running: bool, upstream: str, runs: Runs
) -> None:
    """Also with a proxy that runs already, and knows another one for all paths."""
    runs.variables = {"SPANTAP_UPSTREAM": "http://127.0.0.1:1"}
    set_urls = {"OPENAI_BASE_URL": f"{upstream}/a/v1", "ANTHROPIC_BASE_URL": f"{upstream}/b"}
    server = serve(runs) if is_running else None
    if server is not None:
        server.__enter__()
        wait_for(server, runs)
    try:
        script = "print(ask(), ask('ANTHROPIC_BASE_URL'))"
        status, out, err = runs.python(script, **set_urls)
    finally:
        if server is not None:
            server.end()
    assert (status, out) == (0, "200 200\n"), err
    assert f"spantap: calls of OPENAI_BASE_URL continue to {upstream}/a/v1" in err
    with open_calls(runs.store) as reader:
        assert [it.summary.outcome for it in reader.newest(9)] == ["completed"] * 2


def test_a_base_url_that_cannot_be_an_upstream_is_left_and_told(runs: Runs) -> None:
    """In one line, for the variable that is set; what it may hold of a credential is not told."""
    mine = "http://user:canary@127.0.0.1:1/v1"
    _, out, err = runs.python("print(os.environ['OPENAI_BASE_URL'])", OPENAI_BASE_URL=mine)
    assert out == f"{mine}\n"
    assert err.count("is left as it is, and its calls are not recorded") == 1
    assert "spantap: OPENAI_BASE_URL is left as it is" in err
    assert "canary" not in err


def test_an_upstream_on_the_command_line_wins(upstream: str, runs: Runs) -> None:
    """Over base URLs that are set, as flags win over variables."""
    runs.variables = {}
    dead = {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    assert runs.python("print(ask())", "--upstream", upstream, **dead)[1] == "200\n"


def test_a_run_within_a_run_does_not_go_round(runs: Runs) -> None:
    """The inner one's calls are its own, once, and go where the outer one's would."""
    inner = f"{PROGRAM} run --name inner -- {sys.executable} -Sc"
    command = (*inner.split(), ASK + "print(ask())")
    outer = runs.run("run", "--name", "outer", "--", *command)
    assert outer[:2] == (0, "200\n")
    assert "continue to" not in outer[2]
    assert runs.calls() == [("inner", "gpt-demo")]


def test_what_the_shell_has_of_spantap_does_not_go_round(runs: Runs) -> None:
    """``eval "$(spantap env)"`` before: the calls are recorded once."""
    with serve(runs) as server:
        wait_for(server, runs)
        ask = f"{sys.executable} -Sc '{ASK}print(ask())'"
        script = f'eval "$({PROGRAM} env --name shell)"; {ask}; {PROGRAM} run --name r -- {ask}'
        done = subprocess.run(
            ["sh", "-ec", script], env=runs.environment, capture_output=True, text=True, check=True
        )
        assert done.stdout == "200\n200\n"
        assert "continue to" not in done.stderr
        wait_until(lambda: len(runs.calls()) == 2, 10, "two calls")
        assert runs.calls() == [("shell", "gpt-demo"), ("r", "gpt-demo")]


def test_spans_are_exported_before_the_run_ends(runs: Runs) -> None:
    """As ``spantap serve`` exports them."""
    with HttpSink() as sink:
        status, _, err = runs.python("ask()", OTEL_EXPORTER_OTLP_ENDPOINT=sink.url)
        assert status == 0, err
        with open_calls(runs.store) as reader:
            [span] = reader.page(2).rows
        assert (sink.accepted, span.state.value) == ([span.span_id], "delivered")


def test_a_start_that_fails_says_why(runs: Runs) -> None:
    """In the proxy's own words, with the status for settings; the command is not started."""
    runs.store.write_text("no store, but somebody's notes")
    status, out, err = runs.run("run", "--", "echo", "hi")
    assert (status, out) == (2, "")
    assert err.startswith("spantap: the proxy cannot be started: ")
    assert str(runs.store) in err
    runs.store.unlink()
    status, _, err = runs.run("run", "--", "true", SPANTAP_USAGE="nonsense")
    assert (status, "setting 'usage'" in err) == (2, True)


def test_warnings_of_the_proxy_are_told_and_do_not_garble(runs: Runs) -> None:
    """They are in a file beside the store, for its user alone."""
    script = (
        "import socket\nfrom urllib.parse import urlsplit\n"
        "url = urlsplit(os.environ['OPENAI_BASE_URL'])\n"
        "s = socket.create_connection((url.hostname, url.port))\n"
        "s.sendall(b'nonsense\\r\\n\\r\\n')\nprint(s.recv(12))"
    )
    status, out, err = runs.python(script)
    assert (status, out) == (0, "b'HTTP/1.1 400'\n")
    log = runs.folder / "traces.db.log"
    assert f"spantap: the proxy has warned of something: 1 line in {log}\n" in err
    assert "refused a request" not in err
    assert "refused a request" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_calls_that_are_not_observed_are_told(runs: Runs) -> None:
    """Those of this run alone, for an earlier one may have had some, too."""
    script = (
        "PATHS['OPENAI_BASE_URL'] = '/converse'\n"
        "try:\n    ask()\nexcept urllib.error.HTTPError as error:\n    print(error.status)"
    )
    for _ in range(2):
        status, out, err = runs.python(script)
        assert (status, out) == (0, "404\n")
        assert "no call is recorded" in err
        assert "Relayed and not recorded: 1 x POST /v1/converse" in err
    assert "2 x POST /v1/converse" in runs.run("traces")[1]


@pytest.mark.parametrize(("calls", "is_told"), [("ask()", False), ("", True)])
def test_a_websocket_that_is_refused_is_told_where_nothing_came_after_it(
    calls: str, is_told: bool, runs: Runs
) -> None:
    """Codex continues over HTTP, and its calls are recorded; nothing warns of it."""
    script = (
        "request = urllib.request.Request(os.environ['OPENAI_BASE_URL'] + '/responses')\n"
        "request.add_header('Upgrade', 'websocket')\n"
        "try:\n    urllib.request.urlopen(request)\n"
        f"except urllib.error.HTTPError as error:\n    print(error.status)\n{calls}"
    )
    status, out, err = runs.python(script)
    assert (status, out) == (0, "426\n")
    assert ("Refused, as WebSockets are: 1 x GET /v1/responses" in err) is is_told
    assert "warned of something" not in err
    if not is_told:
        assert "Refused, as WebSockets are" not in runs.run("traces")[1]


@pytest.mark.parametrize("flags", [(), ("--no-flags",)])
def test_a_known_program_is_given_its_flag_unless_told_not_to(
    flags: tuple[str, ...], runs: Runs
) -> None:
    """Before its own arguments; a line says what was added, and how to do without."""
    program = runs.folder / "codex"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$OPENAI_BASE_URL" "$@"\n')
    program.chmod(0o700)
    path = f"{runs.folder}:{runs.environment['PATH']}"
    status, out, err = runs.run("run", *flags, "--", "codex", "exec", "hi", PATH=path)
    url, *arguments = out.splitlines()
    added = [] if flags else ["-c", f"openai_base_url={url}"]
    assert (status, arguments) == (0, [*added, "exec", "hi"])
    hints = [line for line in err.splitlines() if "--no-flags" in line]
    told = f"spantap: for codex: {' '.join(added)} (not with --no-flags)"
    assert hints == ([] if flags else [told])


def test_a_program_behind_a_wrapper_is_given_its_flag(runs: Runs) -> None:
    """Behind its own word; a shell's text takes none, and a line says so."""
    program = runs.folder / "codex"
    program.write_text('#!/bin/sh\nprintf "%s " "$@"\n')
    (runs.folder / "ask").write_text('#!/bin/sh\nA=1 exec env B=2 codex "$@"\n')
    for file in (program, runs.folder / "ask"):
        file.chmod(0o700)
    path = f"{runs.folder}:{runs.environment['PATH']}"
    for command in (("env", "A=b", "timeout", "60", "codex"), ("ask",), ("sh", "ask")):
        folder = str(runs.folder / command[-1]) if command[0] == "sh" else command[-1]
        status, out, err = runs.run("run", "--", *command[:-1], folder, "e", "hi", PATH=path)
        assert status == 0, err
        assert re.fullmatch(r"-c openai_base_url=http://\S+/~run/codex~~\S+ e hi ", out)
        assert f"spantap: for codex, which {command[0]} starts: -c openai_base_url=" in err
    status, out, err = runs.run("run", "--", "sh", "-c", "codex e", PATH=path)
    assert (status, out) == (0, "e ")
    assert "which cannot be put into sh: start codex itself" in err


def test_a_google_login_s_calls_go_to_google_with_any_upstream(runs: Runs) -> None:
    """By a pass, though the runs' upstream takes all paths."""
    for flags in ((), ("--upstream", "http://127.0.0.1:1")):
        out = runs.python("print(os.environ['CODE_ASSIST_ENDPOINT'])", *flags)[1]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/~run/[^/]+/~to/[\w-]+\n", out)


def test_what_is_known_of_a_program_is_said_before(runs: Runs) -> None:
    """``check`` with a command starts nothing, and looks at nothing else."""
    program = runs.folder / "claude"
    program.write_text("#!/bin/sh\nexit 7\n")
    program.chmod(0o700)
    path = f"{runs.folder}:{runs.environment['PATH']}"
    status, out, _ = runs.run("check", "--", "nice", "claude", "-p", "x", PATH=path)
    assert status == 0
    assert "good  program: claude is Claude Code, which nice starts; the tests run version" in out
    assert "good  variables: it reads ANTHROPIC_BASE_URL\n" in out
    assert "      -> `spantap run` sets _CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL=1\n" in out
    signed = {"ANTHROPIC_BEDROCK_BASE_URL": "https://b.example"}
    assert "BEDROCK" not in runs.run("check", "--", "claude", PATH=path, **signed)[1]
    assert not runs.store.exists()
    status, out, _ = runs.run("check", "--", "nosuch-program")
    assert (status, out.split()[:2]) == (1, ["bad", "program:"])
    status, out, _ = runs.run("check", "--", "sh", "-c", "pi")
    assert (status, "note  variables: it reads its base URL from no variable" in out) == (0, True)
    assert "note  flags: flags cannot be put into sh" in out


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, ""),
        ({"SPANTAP_UPSTREAM": "https://api.anthropic.com"}, "1"),
        ({"ANTHROPIC_BASE_URL": "https://api.anthropic.com"}, "1"),
    ],
)
def test_claude_code_is_told_that_it_talks_to_anthropic(
    variables: dict[str, str], said: str, runs: Runs
) -> None:
    """Where that is so: the runs' own upstream is another."""
    name = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"
    program = runs.folder / "claude"
    program.write_text(f'#!/bin/sh\nprintf %s "${name}"\n')
    program.chmod(0o700)
    path = f"{runs.folder}:{runs.environment['PATH']}"
    status, out, err = runs.run("run", "--", "claude", PATH=path, **variables)
    assert (status, out) == (0, said)
    assert (f"for claude: {name}=1" in err) is bool(said)


def test_a_variable_that_is_no_setting_is_told(runs: Runs) -> None:
    """As ``spantap serve`` tells it."""
    assert (
        "SPANTAP_LISTEN_PORT is not a setting"
        in runs.run("run", "true", SPANTAP_LISTEN_PORT="1")[2]
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_standard_streams_may_be_closed(closed: str, runs: Runs) -> None:
    """The command runs, its call is recorded, and no line of ours goes to another file."""
    left = runs.folder / "left"
    program = ASK + f"open({str(left)!r}, 'w').write(f'{{ask()}} {{os.fstat(0).st_rdev}}')"
    script = f'exec "$0" run -- {sys.executable} -Sc "$1" {closed}'
    process = subprocess.run(
        ["sh", "-c", script, PROGRAM, program],
        env=runs.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert left.read_text() == f"200 {Path('/dev/null').stat().st_rdev}"
    assert len(runs.calls()) == 1
    assert process.stdout == ""
    assert ("spantap: 1 call;" in process.stderr) is ("2>" not in closed)


def test_commands_run_with_closed_standard_streams(runs: Runs) -> None:
    """Each ends as it does where its output goes nowhere."""
    assert runs.python("ask()", "--quiet")[0] == 0
    script = 'exec "$@" <&- >&- 2>&-'
    for words in (("traces",), ("stats",), ("store", "info"), ("--version",)):
        process = subprocess.run(
            ["sh", "-c", script, "sh", PROGRAM, *words],
            env=runs.environment,
            timeout=60,
            check=False,
        )
        assert process.returncode == 0, words


def test_an_interrupt_while_the_proxy_starts_ends_it(runs: Runs) -> None:
    """The command is never started."""
    process = runs.start("run", "--", "touch", str(runs.folder / "started"))
    time.sleep(0.45)
    process.send_signal(signal.SIGINT)
    status, _, _ = runs.end(process)
    assert status in {130, -signal.SIGINT, 0}
    runs.see_none_left()
    if status:
        assert not (runs.folder / "started").exists()
