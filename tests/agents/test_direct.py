"""Coding agents by ``spantap run`` and without it: their provider is sent the same.

``make agents`` installs them. Where it is run as root, in namespaces of their own, the providers'
hosts are a stub (:mod:`tests.agents.direct`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trustme

from codec.text.jsontext import decode_json_object
from proxy.demo.script import MODEL
from telemetry.reading.stored_calls import open_calls
from telemetry.spans.otlp.decoding import decode_spans
from tests.agents.direct import HOSTS, Arrived, Plan, Started
from tests.agents.quiet import GEMINI_SETTINGS, keep_quiet
from tests.agents.tasks import BEFORE, NOTES, TASKS
from tests.e2e.processes import clean_environment
from tests.e2e.spantap import PROGRAM
from tests.lanes import find_agents

if TYPE_CHECKING:
    from tests.agents.tasks import Task

BILLING = "x-anthropic-billing-header:"

OURS = {"connection", "traceparent"}
"""A header of this hop alone, and the one that spantap adds."""

MASKED_HEADS = re.compile(
    r"content-length|accept-encoding|.*(?:session|request|thread|window|prompt|turn)[-_]?(?:id|metadata)|"
    r"x-stainless-timeout|x-claude-code-prev-tool-durations",
    re.IGNORECASE,
)
"""Heads whose values are ids, lengths and times; their names are compared. Node and Bun offer
brotli only over TLS."""

MASKED = (
    (r"home [0-9]", "HOME"),
    (r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
    (rf"{BILLING}.*", BILLING),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?", "TIME"),
    (r"\b1\d{12}\b", "TIME"),
    (r'(?<="device_id":")[0-9a-f]+', "DEVICE"),  # of Claude Code
    (r"\b(?:fc|msg|call|toolu|rs|resp)_[0-9a-f]{16,}", "ID"),
    (r"(?<=Chunk ID: )\w+|(?<=Wall time: )[0-9.]+", "MASKED"),  # of Codex's tool
    # qwen-code offers this only with a base URL of Alibaba's own: docs/quickstarts/qwen-code.md
    (r'\n- "web_search": "[^\n]*', ""),
)
"""What differs in the texts of two direct runs, too."""

_MASKS = [(re.compile(pattern, re.DOTALL), word) for pattern, word in MASKED]

AGENTS = {task.agent: task for task in TASKS}
DASHSCOPE = {"OPENAI_BASE_URL": "https://dashscope.aliyuncs.com/compatible-mode/v1"}
LOGIN = {
    ".gemini/settings.json": json.dumps(
        GEMINI_SETTINGS | {"security": {"auth": {"selectedType": "oauth-personal"}}}
    ),
    ".gemini/oauth_creds.json": json.dumps(
        {
            "access_token": "canary",
            "refresh_token": "canary",
            "token_type": "Bearer",
            "expiry_date": 4_000_000_000_000,
        }
    ),
    ".gemini/google_accounts.json": json.dumps({"active": "a@example.com", "old": []}),
}
"""A Google login of gemini-cli's, which nobody has made."""

WAYS = {
    "gemini with a login": replace(AGENTS["gemini"], variables={}, files=LOGIN),
    "claude": AGENTS["claude"],
    "codex": AGENTS["codex"],
    "gemini": AGENTS["gemini"],
    "qwen": replace(
        AGENTS["qwen"],
        variables=AGENTS["qwen"].variables | {"OPENAI_BASE_URL": "https://api.openai.com/v1"},
    ),
    "qwen at DashScope": replace(AGENTS["qwen"], variables=AGENTS["qwen"].variables | DASHSCOPE),
}


UNORDERED = {"client_metadata"}
"""Members of Codex's whose own members come in any order."""


LOST = {"qwen": {"prompt_cache_key"}}
"""Members of a body that a base URL takes away: docs/quickstarts/qwen-code.md."""


def mask(value: Any) -> Any:
    """A JSON value with its members in their order, and without ids and times."""
    if isinstance(value, dict):
        return [
            (name, sorted(mask(member)) if name in UNORDERED else mask(member))
            for name, member in value.items()
        ]
    if isinstance(value, list):
        return [mask(one) for one in value]
    if isinstance(value, float):
        return "TIME"
    if isinstance(value, str):
        for pattern, word in _MASKS:
            value = pattern.sub(word, value)
    return value


def mask_call(arrived: Arrived) -> dict[str, Any]:
    """What is to be the same: heads in their order, members, system blocks with marks, tools."""
    return {
        "host": arrived.host,
        "target": arrived.target,
        "heads": [
            (name, "" if MASKED_HEADS.fullmatch(name) else mask(value))
            for name, value in arrived.headers
            if name.lower() not in OURS
        ],
        "body": mask(decode_json_object(arrived.body)),
    }


def run_ways(folder: Path, task: Task, *ways: str) -> list[list[Arrived]]:
    """Run an agent's task in some ways (``$RUN``), in namespaces; what arrived of each."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "mount", "ip"))):
        pytest.skip("namespaces want root, unshare, mount and ip")
    programs = find_agents(task.agent)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    server = authority.issue_cert(*HOSTS)
    server.private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    (folder / "hosts").write_text(f"127.0.0.1 localhost {' '.join(HOSTS)}\n")
    (folder / "resolver").write_text("nameserver 127.0.0.1\noptions attempts:1 timeout:1\n")
    place = folder / "task"
    place.mkdir()
    started = []
    for number, way in enumerate(ways):
        home = folder / f"home {number}"
        environment = clean_environment() | keep_quiet(home) | task.variables
        environment |= {
            "PATH": os.pathsep.join([*map(str, programs), environment["PATH"]]),
            "NODE_EXTRA_CA_CERTS": str(folder / "ca.pem"),
            "SSL_CERT_FILE": str(folder / "ca.pem"),
            "QUESTION": task.question(place),
            "RUN": way,
        }
        files = {str(home / name): text for name, text in task.files.items()}
        for file in files:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
        files[str(place / NOTES)] = BEFORE
        started.append(Started(["sh", "-c", task.command], environment, str(place), files))
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
        timeout=250,
    )
    said = (ran.stdout + ran.stderr).decode()
    print(said)  # what agents and spantap say, if the test fails
    assert ran.returncode == 0, said
    return msgspec.json.decode((folder / "noted.json").read_bytes(), type=list[list[Arrived]])


def read_spans(store: Path) -> list[tuple[str, dict[str, Any]]]:
    """The name and the metadata of all spans that were recorded."""
    with open_calls(store).all_rows() as reader:
        spans = [decode_spans(one.span)[0] for one in reader.newest(20)]
    return [(span.name, decode_json_object(span.attributes["metadata"])) for span in spans]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", WAYS)
def test_an_agent_sends_through_spantap_what_it_sends_itself(way: str, tmp_path: Path) -> None:
    """To the same host: heads in their order, members, system blocks with marks, tools."""
    task, store = WAYS[way], tmp_path / "traces.db"
    direct, tapped = run_ways(tmp_path, task, "", f"{PROGRAM} run --store {store} --")
    assert len(direct) == len(tapped) >= task.turns
    for one, other in zip(map(mask_call, direct), map(mask_call, tapped), strict=True):
        lost = [member for member in one["body"] if member[0] in LOST.get(way, ())]
        assert {name for name, _ in lost} == LOST.get(way, set())
        one["body"] = [member for member in one["body"] if member not in lost]
        assert other == one
    spans = read_spans(store)
    metadata = [one for _, one in spans]
    assert [name for name, _ in spans].count(task.span_name) == len(tapped)
    if way == "claude":
        assert BILLING.encode() in direct[0].body, "else the next lines say nothing"
        assert {one["usage"].get("prompt_changes") for one in metadata if "usage" in one} == {None}
        changed = [one.get("conversation", {}).get("system_changed") for one in metadata]
        assert changed == [None] * len(changed)
    if way == "qwen at DashScope":
        assert "x-dashscope-cachecontrol" in dict(tapped[0].headers), "else it proves nothing"


@pytest.mark.timeout(300)
def test_qwen_code_calls_the_same_host_where_none_is_named(tmp_path: Path) -> None:
    """The base URL that a key alone needs."""
    task, store = AGENTS["qwen"], tmp_path / "traces.db"
    direct, tapped = run_ways(tmp_path, task, "", f"{PROGRAM} run --store {store} --")
    assert {one.host for one in direct} == {one.host for one in tapped}
    assert MODEL.encode() in tapped[0].body
