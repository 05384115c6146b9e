"""``spantap serve --intercept-port``: programs that somebody else starts, and restarts."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from proxy.interception.authority import make_authority
from proxy.interception.kept_authority import (
    KeptAuthority,
    authority_folder,
    find_authority,
    keep_authority,
    renew_authority,
)
from tests.e2e.processes import find_free_port, wait_until
from tests.proxy.outside import outside
from tests.proxy.test_run_command import serve, wait_for
from tests.proxy.test_run_intercept import CALL, InterceptedRuns, _plain  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.processes import ServerProcess

pytestmark = pytest.mark.timeout(120)


class Programs(InterceptedRuns):
    """A proxy with an interception port, and programs that are not started by it."""

    def serve(self, **variables: str) -> ServerProcess:
        """``spantap serve`` with the port, which is the same one after a restart."""
        if "SPANTAP_INTERCEPT_PORT" not in self.variables:
            self.variables = {
                **self.variables,
                "SPANTAP_INTERCEPT_PORT": str(find_free_port()),
            }
        return serve(self, **variables)

    @property
    def port(self) -> int:
        return int(self.variables["SPANTAP_INTERCEPT_PORT"])

    @property
    def kept(self) -> KeptAuthority:
        kept = find_authority(self.store)
        assert kept is not None
        return kept

    def configure(self) -> dict[str, str]:
        """The variables of a program, as ``spantap ca env`` prints them."""
        status, out, err = self.run("ca", "env")
        assert (status, err) == (0, "")
        pairs = (shlex.split(line)[1].partition("=") for line in out.splitlines())
        return {name: text for name, _, text in pairs}

    def call(self, variables: dict[str, str], script: str = "print(call())") -> str:
        """What a program prints that has these variables and knows nothing else of us."""
        done = subprocess.run(
            [sys.executable, "-S", "-c", CALL + script],
            env={"PATH": os.environ["PATH"], **variables},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout.strip() or done.stderr

    def wait_for_calls(self, count: int) -> None:
        wait_until(lambda: len(self.calls()) == count, 20, f"{count} calls in the store")


@pytest.fixture(name="programs")
def _programs(plain: int, tmp_path: Path) -> Iterator[Programs]:
    """No process is left at the end."""
    with outside(plain, tmp_path) as (it, variables):
        programs = Programs(folder=tmp_path, variables=variables, outside=it)
        yield programs
        programs.see_none_left()


def ask(port: int, head: str) -> bytes:
    """The first line of the answer to a head."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(head.encode() + b"\r\n\r\n")
        return client.makefile("rb").readline().strip()


def test_a_program_that_was_configured_once_works_after_a_restart(programs: Programs) -> None:
    """The proxy has the same port, secret and authority; the calls belong to no launch."""
    with programs.serve() as server:
        wait_for(server, programs)
        variables = programs.configure()
        assert programs.call(variables) == "200"
        programs.wait_for_calls(1)
        assert server.end() == 0
    with programs.serve(SPANTAP_WORKERS="2") as server:
        wait_for(server, programs)
        assert programs.call(variables) == "200"
        programs.wait_for_calls(2)
        assert programs.calls() == [(None, "gpt-demo")] * 2
        assert server.end() == 0
    assert set(programs.outside.hosts) == {"api.openai.com"}


def test_the_log_says_where_it_listens_and_keeps_the_secret(programs: Programs) -> None:
    """No line has the secret or the key, whatever happens and however much is logged."""
    with programs.serve(SPANTAP_LOG_LEVEL="debug") as server:
        wait_for(server, programs)
        assert programs.call(programs.configure()) == "200"
        ask(programs.port, "CONNECT api.openai.com:443 HTTP/1.1")
        assert server.end() == 0
    said = f"intercepting at http://127.0.0.1:{programs.port}; `spantap ca` says how"
    assert said in server.output
    assert programs.kept.secret not in server.output
    for line in programs.kept.key.splitlines():
        assert line not in server.output


def test_without_the_secret_nobody_gets_through(programs: Programs) -> None:
    """Also on this machine; and other machines do not reach the port."""
    with programs.serve() as server:
        wait_for(server, programs)
        for secret in ("", "Proxy-Authorization: Basic c3BhbnRhcDp3cm9uZw==\r\n"):
            head = f"CONNECT packages.other.test:443 HTTP/1.1\r\n{secret}Host: x"
            assert ask(programs.port, head).startswith(b"HTTP/1.1 407 ")
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", programs.port), timeout=20)
        assert server.end() == 0
    assert programs.outside.hosts == []


def test_a_worker_that_is_killed_comes_back_at_the_port(programs: Programs) -> None:
    """A connection that comes meanwhile waits."""
    with programs.serve() as server:
        wait_for(server, programs)
        variables = programs.configure()
        [pid] = programs.pids("proxy.processes.worker")
        os.kill(pid, signal.SIGKILL)
        assert programs.call(variables) == "200"
        assert server.end() == 0


def test_a_host_outside_the_authority_is_tunnelled_until_it_is_renewed(programs: Programs) -> None:
    """A line of the log names it and says what to do."""
    keep_authority(programs.store, ["api.anthropic.com", "api.openai.com"])
    host = "api.groq.com"
    with programs.serve() as server:
        wait_for(server, programs)
        variables = programs.configure()
        script = f"print(call({host!r}, ca={programs.outside_ca!r}), call())"
        assert programs.call(variables, script) == "200 200"
        programs.wait_for_calls(1)
        assert server.end() == 0
    assert "so calls there are not recorded; `spantap ca renew` makes another" in server.output
    assert programs.run("ca", "renew")[0] == 0
    with programs.serve() as server:
        wait_for(server, programs)
        assert programs.call(variables, f"print(call({host!r}), call())") == "200 200"
        programs.wait_for_calls(3)
        assert server.end() == 0


def test_a_host_of_the_settings_is_opened(programs: Programs) -> None:
    """By its exact name; one that may not be opened is refused at the start."""
    programs.variables = {**programs.variables, "SPANTAP_INTERCEPT_HOSTS": "models.corp.test"}
    with programs.serve() as server:
        wait_for(server, programs)
        script = "print(call('models.corp.test'))"
        assert programs.call(programs.configure(), script) == "200"
        programs.wait_for_calls(1)
        assert server.end() == 0
    status, out, err = programs.intercept(script)
    assert (status, out) == (0, "200\n"), err
    status, _, err = programs.run("serve", SPANTAP_INTERCEPT_HOSTS="github.com")
    assert status == 2
    assert "setting 'intercept_hosts': 'github.com' is a login, account or code host" in err


def test_a_program_that_distrusts_us_is_named_in_the_log(programs: Programs) -> None:
    """After two failures its calls are tunnelled, and its user can find out why."""
    with programs.serve() as server:
        wait_for(server, programs)
        said = programs.call(programs.configure(), programs.distrust_us(3))
        assert said.split() == ["failed", "failed", "200"]
        said = "calls to api.openai.com are not recorded, because a client does not trust"
        wait_until(lambda: said in server.output, 20, "it is logged")
        assert server.output.count(said) == 1
        assert server.end() == 0


def test_an_authority_that_has_ended_breaks_nobody(programs: Programs) -> None:
    """Everything is tunnelled, and the log says why."""
    keep_authority(programs.store, ["api.openai.com"])
    certificate, key = make_authority(["api.openai.com"], valid_days=0)
    ended = KeptAuthority(
        certificate=certificate.decode(), key=key.decode(), secret=programs.kept.secret
    )
    (authority_folder(programs.store) / "authority.json").write_bytes(msgspec.json.encode(ended))
    with programs.serve() as server:
        wait_for(server, programs)
        script = f"print(call(ca={programs.outside_ca!r}))"
        assert programs.call(programs.configure(), script) == "200"
        wait_until(lambda: "is too old" in server.output, 20, "it is logged")
        assert server.end() == 0
    assert "so no call is recorded; `spantap ca renew` makes another" in server.output
    assert "api.openai.com are not recorded, because the certificate authority is" in server.output
    assert programs.calls() == []


def test_two_proxies_that_share_a_folder_leave_each_other_their_authority(
    programs: Programs,
) -> None:
    """As in a home folder on two machines; a renewal by one holds for the other at its restart."""
    first = keep_authority(programs.store, ["api.openai.com"])  # by the other machine
    with programs.serve() as server:
        wait_for(server, programs)
        variables = programs.configure()
        assert programs.kept == first
        assert programs.call(variables) == "200"
        renewed = renew_authority(programs.store, ["api.openai.com"])  # as above
        assert "CERTIFICATE_VERIFY_FAILED" in programs.call(variables)
        assert server.end() == 0
    with programs.serve() as server:
        wait_for(server, programs)
        assert programs.kept == renewed
        assert programs.call(variables) == "200"
        assert server.end() == 0


def test_a_launch_does_not_take_the_port(programs: Programs) -> None:
    """Its proxy has ports of its own, and no authority is made for it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, out, err = programs.intercept("print(call())", SPANTAP_INTERCEPT_PORT=port)
    assert (status, out) == (0, "200\n"), err
    assert not authority_folder(programs.store).exists()


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "http_proxy"])
def test_a_proxy_that_leads_to_itself_is_refused(name: str, programs: Programs) -> None:
    """As in a shell with the variables of ``spantap ca env``."""
    port = str(find_free_port())
    variables = {"SPANTAP_INTERCEPT_PORT": port, name: f"http://spantap:canary@localhost:{port}"}
    status, _, err = programs.run("serve", "--port", "0", "--admin-port", "0", **variables)
    assert status == 2
    assert f"{name.upper()} leads to the interception port of spantap itself" in err
    assert "canary" not in err


def test_a_port_that_is_taken_is_named(programs: Programs) -> None:
    """With the flag that names another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, _, err = programs.run(
            "serve", "--port", "0", "--admin-port", "0", "--intercept-port", port
        )
    assert status == 2
    assert "name another port with --intercept-port or SPANTAP_INTERCEPT_PORT" in err
