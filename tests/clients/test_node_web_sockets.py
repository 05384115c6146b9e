"""The ``openai`` npm package hears over WebSockets through spantap what it hears directly.

``make quickstarts`` installs it by ``tests/clients/node/package-lock.json``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json_object
from tests.clients.test_node_responses import SCRIPTS, run
from tests.clients.web_sockets import (
    check_spans,
    check_spoken,
    even_out,
    read_roles,
    serving,
    serving_by_tls,
)
from tests.lanes import find_node_packages

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)


def talk(session: str, base_url: str, ca: Path | None = None) -> dict[str, Any]:
    """What the script heard in a session."""
    program = (SCRIPTS / "web_sockets.mjs").read_text(encoding="utf-8")
    command = ("node", "--input-type=module", "-", session, base_url)
    variables = {} if ca is None else {"NODE_EXTRA_CA_CERTS": str(ca)}
    folder = find_node_packages("quickstarts")
    return decode_json_object(run(*command, folder=folder, text=program, **variables).encode())


def test_responses_are_heard_as_directly_and_are_spans(tmp_path: Path) -> None:
    """Event by event; the spans say what the package has put together."""
    find_node_packages("quickstarts")
    with serving(tmp_path) as stage:
        direct = talk("responses", stage.direct_url)
        proxied = talk("responses", stage.proxied_url)
        assert even_out(proxied) == even_out(direct)
        spans = check_spans(stage.store, proxied["responses"])
    asked = ["system", "user"]
    told = [*asked, *["assistant"] * 2, *["tool"] * 2]
    assert [read_roles(span) for span in spans] == [asked, asked, told, *[asked] * 3]


def test_realtime_is_heard_as_directly_by_tls(tmp_path: Path) -> None:
    """The package calls Realtime by ``wss`` alone, whatever the base URL says."""
    find_node_packages("quickstarts")
    with serving_by_tls(tmp_path) as stage:
        direct = talk("realtime", stage.direct_url, stage.ca)
        proxied = talk("realtime", stage.proxied_url, stage.ca)
        assert even_out(proxied) == even_out(direct)
        assert proxied["events"][-2]["response"]["status"] == "completed"
        check_spoken(stage.store, proxied["events"])
