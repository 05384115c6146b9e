"""Coding agents by ``spantap run`` and without it: their provider is sent the same.

Through spantap they go by a base URL, and by interception, which those take that read no variable.
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
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
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
from tests.agents.quiet import CODEX_SETTINGS, GEMINI_SETTINGS, keep_quiet
from tests.agents.tasks import BEFORE, CODEX_OWN, GROK, HERE, NOTES, TASKS
from tests.e2e.processes import clean_environment
from tests.e2e.spantap import PROGRAM
from tests.lanes import find_agents

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from telemetry.spans.otlp.decoding import DecodedSpan
    from tests.agents.tasks import Task

Masks = Sequence[tuple[re.Pattern[str], str]]

BILLING = "x-anthropic-billing-header:"

OURS = {"connection", "traceparent"}
"""A header of this hop alone, and the one that spantap adds."""

MASKED_HEADS = re.compile(
    r"content-length|.*(?:session|request|thread|window|prompt|turn)[-_]?(?:id|metadata)|"
    r"x-stainless-timeout|x-claude-code-prev-tool-durations",
    re.IGNORECASE,
)
"""Heads whose values are ids, lengths and times; their names are compared."""

MASKED = (
    (r"home [0-9]", "HOME"),
    (r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
    (rf"{BILLING}.*", BILLING),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?", "TIME"),
    (r"\b1\d{12}\b", "TIME"),
    (r'(?<="device_id":")[0-9a-f]+', "DEVICE"),  # of Claude Code
    (r"\b(?:fc|ctc|msg|call|toolu|rs|resp)_[0-9a-f]{16,}|\bses_[0-9A-Za-z]{16,}", "ID"),
    (r"(?<=Chunk ID: )\w+|(?<=Wall time: )[0-9.]+|(?<=Wall time )[0-9.]+", "MASKED"),  # of Codex
)
"""What differs in the texts of two direct runs, too."""

_MASKS = [(re.compile(pattern, re.DOTALL), word) for pattern, word in MASKED]

TLS_HEADS = {"accept-encoding"}
"""Heads that a base URL of plain HTTP changes: Node and Bun offer brotli only over TLS."""

_WEB_SEARCH = (re.compile(r'\n- "web_search": "[^\n]*'), "")
"""What qwen-code offers only with a base URL of Alibaba's own: docs/quickstarts/qwen-code.md."""

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


def _write_token(claims: JsonObject) -> str:
    """A token that is not signed, of the form that Codex reads."""
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in (*parts, b"none"))


_CHATGPT = _write_token(
    {
        "exp": 4_000_000_000,
        "https://api.openai.com/auth": {
            "chatgpt_account_id": "account-1",
            "chatgpt_plan_type": "plus",
        },
    }
)

CODEX_LOGIN = replace(
    AGENTS["codex"],
    variables={},
    files={
        # The stub reads no zstd, in which Codex sends bodies after a login.
        ".codex/config.toml": CODEX_SETTINGS.replace(
            "[features]", "[features]\nenable_request_compression = false"
        ),
        ".codex/auth.json": json.dumps(
            {
                "auth_mode": "chatgpt",
                "tokens": {
                    "id_token": _CHATGPT,
                    "access_token": _CHATGPT,
                    "refresh_token": "canary",
                    "account_id": "account-1",
                },
                "last_refresh": datetime.now(UTC).isoformat(),
            }
        ),
    },
)
"""Codex with a ChatGPT login, which nobody has made."""

SUBSCRIBED = replace(
    AGENTS["copilot"],
    command=AGENTS["copilot"].command + " --model gpt-5.1",
    variables={"COPILOT_GITHUB_TOKEN": f"gho_{'a' * 36}", "COPILOT_OFFLINE": ""},
    steps=[
        AGENTS["copilot"].steps[0],
        (
            "edit",
            {"path": f"{HERE}/{NOTES}", "old_str": "Lotte", "new_str": "Emma"},
        ),
    ],
    span_name="Response",
)
"""Copilot with a subscription, which nobody has."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """An agent, and where it calls.

    Attributes:
        reads_base_url: it has one from a variable or ``spantap run``, and sends there what can be
            compared.
        lost: members of a body and heads that a base URL takes away.
        is_ordered: its heads come in the same order each time.
    """

    task: Task
    reads_base_url: bool = True
    lost: frozenset[str] = frozenset()
    is_ordered: bool = True


WAYS = {
    "gemini with a login": Way(task=replace(AGENTS["gemini"], variables={}, files=LOGIN)),
    "claude": Way(task=AGENTS["claude"]),
    "codex": Way(task=AGENTS["codex"]),
    "codex with its own model": Way(task=CODEX_OWN),
    "codex with a login": Way(
        task=CODEX_LOGIN,
        lost=frozenset({"x-openai-account-routing-override"}),  # docs/quickstarts/codex.md
    ),
    "gemini": Way(task=AGENTS["gemini"]),
    "qwen": Way(
        task=replace(
            AGENTS["qwen"],
            variables=AGENTS["qwen"].variables | {"OPENAI_BASE_URL": "https://api.openai.com/v1"},
        ),
        lost=frozenset({"prompt_cache_key"}),  # docs/quickstarts/qwen-code.md
    ),
    "qwen at DashScope": Way(
        task=replace(AGENTS["qwen"], variables=AGENTS["qwen"].variables | DASHSCOPE)
    ),
    "opencode": Way(task=AGENTS["opencode"]),
    "copilot": Way(task=AGENTS["copilot"], is_ordered=False),
    "copilot with a subscription": Way(task=SUBSCRIBED, reads_base_url=False, is_ordered=False),
    "cline": Way(task=AGENTS["cline"], reads_base_url=False),
    "pi": Way(task=AGENTS["pi"], reads_base_url=False),
    "kimi": Way(task=AGENTS["kimi"]),
    "aider": Way(task=AGENTS["aider"]),
    "grok": Way(task=GROK, reads_base_url=False),  # to a base URL, it sends something else
}


UNORDERED = {"client_metadata"}
"""Members of Codex's whose own members come in any order."""


def mask(value: Any, masks: Masks) -> Any:
    """A JSON value with its members in their order, and without ids and times."""
    if isinstance(value, dict):
        return [
            (name, sorted(mask(member, masks)) if name in UNORDERED else mask(member, masks))
            for name, member in value.items()
        ]
    if isinstance(value, list):
        return [mask(one, masks) for one in value]
    if isinstance(value, float):
        return "TIME"
    if isinstance(value, str):
        for pattern, word in masks:
            value = pattern.sub(word, value)
    return value


def mask_call(arrived: Arrived, *, by_base_url: bool) -> dict[str, Any]:
    """What is to be the same: heads in their order, members, system blocks with marks, tools."""
    masks = [*_MASKS, _WEB_SEARCH] if by_base_url else _MASKS
    hidden = TLS_HEADS if by_base_url else set()
    return {
        "host": arrived.host,
        "target": arrived.target,
        "heads": [
            (
                name,
                ""
                if MASKED_HEADS.fullmatch(name) or name.lower() in hidden
                else mask(value, masks),
            )
            for name, value in arrived.headers
            if name.lower() not in OURS
        ],
        "body": mask(decode_json_object(arrived.body), masks),
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


def read_spans(store: Path) -> list[DecodedSpan]:
    """All spans that were recorded."""
    with open_calls(store).all_rows() as reader:
        return [decode_spans(one.span)[0] for one in reader.newest(20)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", WAYS)
def test_an_agent_sends_through_spantap_what_it_sends_itself(name: str, tmp_path: Path) -> None:
    """To the same host: heads in their order, members, system blocks with marks, tools."""
    way, run = WAYS[name], f"{PROGRAM} run --name agent --store {tmp_path}"
    words = {"intercept.db": f"{run}/intercept.db --intercept --"}
    if way.reads_base_url:
        words["base.db"] = f"{run}/base.db --"
    direct, *through = run_ways(tmp_path, way.task, "", *words.values())
    assert len(direct) >= way.task.turns
    for store, tapped in zip(words, through, strict=True):
        check_same(way, direct, tapped, by_base_url=store == "base.db")
        check_spans(way.task, tmp_path / store, len(tapped))
    if name == "claude":
        assert BILLING.encode() in direct[0].body, "else the spans say nothing"
    if name == "qwen at DashScope":
        assert "x-dashscope-cachecontrol" in dict(direct[0].headers), "else it proves nothing"
    if name == "codex with its own model":
        assert b'"additional_tools"' in direct[0].body, "else it proves nothing"


def check_same(
    way: Way, direct: list[Arrived], tapped: list[Arrived], *, by_base_url: bool
) -> None:
    """Compare what arrived, apart from what a base URL changes."""
    lost = way.lost if by_base_url else frozenset()
    for pair in zip(direct, tapped, strict=True):
        one, other = (mask_call(call, by_base_url=by_base_url) for call in pair)
        assert lost <= {name for name, _ in (*one["body"], *one["heads"])}
        for part in ("body", "heads"):
            one[part] = [member for member in one[part] if member[0] not in lost]
        if not way.is_ordered:
            for call in (one, other):
                call["heads"].sort()
        assert other == one


def check_spans(task: Task, store: Path, count: int) -> None:
    """Each call is a span of the launch, and no prompt changed from one to the next."""
    spans = read_spans(store)
    calls = [span for span in spans if span.name == task.span_name]
    assert len(calls) == count
    assert [span.attributes["tag.tags"] for span in calls] == [["agent"]] * count
    for span in spans:
        metadata = decode_json_object(span.attributes["metadata"])
        assert metadata.get("usage", {}).get("prompt_changes") is None
        assert metadata.get("conversation", {}).get("system_changed") is None


@pytest.mark.timeout(300)
def test_qwen_code_calls_the_same_host_where_none_is_named(tmp_path: Path) -> None:
    """The base URL that a key alone needs."""
    task, store = AGENTS["qwen"], tmp_path / "traces.db"
    direct, tapped = run_ways(tmp_path, task, "", f"{PROGRAM} run --store {store} --")
    assert {one.host for one in direct} == {one.host for one in tapped}
    assert MODEL.encode() in tapped[0].body
