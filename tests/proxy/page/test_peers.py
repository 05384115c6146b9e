"""Whose program is at the other end of a connection."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from proxy.page.token import is_of_another_user

_CONNECT = """
import encodings.idna, os, socket, sys
os.setuid(int(sys.argv[1]))
with socket.create_connection((sys.argv[2], int(sys.argv[3]))):
    sys.stdin.read()
"""

_NOBODY = 65534


@pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="the system does not tell")  # noqa: PTH110
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("uid", [os.geteuid(), _NOBODY])
def test_a_connection_of_another_user_is_known(host: str, uid: int) -> None:
    """By either version of IP; our own is ours."""
    if uid != os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip("there is no such address here")
    listener.settimeout(10)
    with listener:
        command = [sys.executable, "-c", _CONNECT, str(uid), host, str(listener.getsockname()[1])]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            accepted, peer = listener.accept()
            with accepted:
                found = is_of_another_user(peer[:2], accepted.getsockname()[:2])
            assert process.stdin is not None
            process.stdin.close()
            process.wait(20)
    assert found is (uid != os.geteuid())


def test_what_is_not_known_is_nobodys() -> None:
    """A connection from elsewhere, or one that is not there."""
    assert not is_of_another_user(("192.0.2.1", 5), ("127.0.0.1", 6))
    assert not is_of_another_user(("2001:db8::1", 5), ("::1", 6))
