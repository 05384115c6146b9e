"""Claude Code by ``spantap run`` and without it: Anthropic is sent the same.

``make agents`` installs it. Where it is run as root, in namespaces of its own, its provider's host
is a stub (:mod:`tests.agents.direct`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

from codec.text.jsontext import decode_json_object
from telemetry.reading.stored_calls import open_calls
from telemetry.spans.otlp.decoding import decode_spans
from tests.agents.direct import HOST, Arrived, Plan, Started
from tests.agents.quiet import keep_quiet
from tests.agents.tasks import BEFORE, NOTES
from tests.e2e.processes import clean_environment
from tests.e2e.spantap import PROGRAM
from tests.lanes import find_node_packages

MODEL = "claude-sonnet-4-5"
BILLING = "x-anthropic-billing-header:"

OURS = {"connection", "traceparent"}
"""A header of this hop alone, and the one that spantap adds."""

HOME = re.compile("home [0-9]")

VALUES = {"anthropic-beta", "anthropic-version", "accept", "accept-encoding", "content-type"}
"""Headers whose values are compared; others have ids, lengths and times."""


def shape(value: Any) -> Any:
    """A JSON value with its members in their order, and of its texts and numbers the kind."""
    if isinstance(value, dict):
        return [(name, shape(member)) for name, member in value.items()]
    if isinstance(value, list):
        return [shape(one) for one in value]
    return type(value).__name__


def shape_call(arrived: Arrived) -> dict[str, Any]:
    """What is to be the same: heads, betas, members, system blocks with their marks, tools."""
    body = decode_json_object(arrived.body)
    system = body["system"]
    return {
        "target": arrived.target,
        "heads": [
            (name, value if name.lower() in VALUES else "")
            for name, value in arrived.headers
            if name.lower() not in OURS
        ],
        "members": [*body],
        "model": body["model"],
        "system": [(one["type"], [*one], one.get("cache_control")) for one in system],
        "is billed": system[0]["text"].startswith(BILLING),
        "prompt": [
            HOME.sub("home", one["text"]) for one in system if not one["text"].startswith(BILLING)
        ],
        "tools": [tool["name"] for tool in body.get("tools", [])],
        "messages": shape(body["messages"]),
        "others": {
            name: shape(body[name])
            for name in body.keys() - {"messages", "system", "tools", "model"}
        },
    }


def plan_run(folder: Path, *commands: list[str], **variables: str) -> list[list[Arrived]]:
    """Run Claude Code by each of some commands, in namespaces; what arrived of each."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "mount", "ip"))):
        pytest.skip("namespaces want root, unshare, mount and ip")
    programs = find_node_packages("agents") / ".bin"
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    server = authority.issue_cert(HOST)
    server.private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    (folder / "hosts").write_text(f"127.0.0.1 localhost {HOST}\n")
    (folder / "resolver").write_text("nameserver 127.0.0.1\noptions attempts:1 timeout:1\n")
    task = folder / "task"
    task.mkdir()
    (task / NOTES).write_text(BEFORE)
    started = []
    for number, command in enumerate(commands):
        environment = clean_environment() | keep_quiet(folder / f"home {number}") | variables
        environment |= {
            "ANTHROPIC_API_KEY": "k",
            "PATH": os.pathsep.join([str(programs), environment["PATH"]]),
            "NODE_EXTRA_CA_CERTS": str(folder / "ca.pem"),
            "SSL_CERT_FILE": str(folder / "ca.pem"),
        }
        started.append(Started(command, environment, str(task)))
    plan = Plan(
        certificate=str(folder / "server.pem"),
        hosts=str(folder / "hosts"),
        resolver=str(folder / "resolver"),
        noted=str(folder / "noted.json"),
        commands=started,
    )
    (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
    ours = [sys.executable, "-m", "tests.agents.direct", str(folder / "plan.json")]
    probe = subprocess.run(["unshare", "-m", "-n", "true"], check=False, capture_output=True)
    if probe.returncode:
        pytest.skip(f"no namespaces here: {probe.stderr.decode().strip()}")
    ran = subprocess.run(
        ["unshare", "-m", "-n", "--propagation", "private", *ours],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
        timeout=200,
    )
    assert ran.returncode == 0, (ran.stdout + ran.stderr).decode()
    return msgspec.json.decode((folder / "noted.json").read_bytes(), type=list[list[Arrived]])


def read_metadata(store: Path) -> list[dict[str, Any]]:
    """The metadata of all spans that were recorded."""
    with open_calls(store).all_rows() as reader:
        spans = [decode_spans(one.span)[0] for one in reader.newest(20)]
    return [decode_json_object(span.attributes["metadata"]) for span in spans]


def ask(task: Path) -> list[str]:
    """Claude Code with a task of two calls: it reads a file, and says what is in it."""
    question = f'Read the notes.\ncall Read {{"file_path": "{task / NOTES}"}}\nAnd then tell me.'
    return ["claude", "-p", question, "--model", MODEL, "--output-format", "json"]


@pytest.mark.timeout(300)
def test_claude_code_sends_through_spantap_what_it_sends_itself(tmp_path: Path) -> None:
    """Heads in their order, betas, members, system blocks with marks, tools; all is recorded."""
    told = ask(tmp_path / "task")
    store = tmp_path / "traces.db"
    direct, tapped = plan_run(tmp_path, told, [PROGRAM, "run", "--store", str(store), "--", *told])
    assert len(direct) == len(tapped) >= 2
    for one, other in zip(map(shape_call, direct), map(shape_call, tapped), strict=True):
        assert other == one
        assert one["is billed"], "else the next lines say nothing"
    metadata = read_metadata(store)
    assert [one["usage"].get("prompt_changes") for one in metadata if "usage" in one] == [None]
    changed = [one.get("conversation", {}).get("system_changed") for one in metadata]
    assert changed == [None] * len(changed)
