"""A task for each coding agent: the boat in ``notes.txt`` gets another name.

The question directs the demo upstream (``docs/demo-upstream.md``), so the calls are such as the
agent's own tools take.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from codec.text.jsontext import decode_json, decode_json_object
from proxy.demo.script import MODEL
from tests.agents.histories import (
    read_claude,
    read_cline,
    read_codex,
    read_copilot,
    read_gemini,
    read_kimi,
    read_opencode,
    read_pi,
    read_qwen,
)
from tests.agents.quiet import CODEX_SETTINGS, GEMINI_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.agents.histories import History

__all__ = (
    "AFTER",
    "BEFORE",
    "CODEX_BY_SOCKET",
    "CODEX_OWN",
    "CODEX_OWN_BY_SOCKET",
    "GROK",
    "HERE",
    "NOTES",
    "TASKS",
    "Report",
    "Task",
)

NOTES = "notes.txt"
BEFORE, AFTER = "The boat is called Lotte.\n", "The boat is called Emma.\n"

HERE = "FOLDER"
"""In arguments: the folder of the task, of which some tools want the whole path."""

_PATCH = f"""*** Begin Patch
*** Update File: {NOTES}
@@
-{BEFORE}+{AFTER}*** End Patch"""

_LISTING = f"{NOTES}\n```\n{{}}```\n"
"""A file as aider's models write it."""

Arguments = dict[str, Any] | str
"""Arguments of a call by name, or the text of a tool that takes free text."""


class Report(NamedTuple):
    """An agent's own words on its task.

    Attributes:
        answer: the last one, or all that it printed.
        tokens: of prompts and of answers; ``None`` where it only estimates them.
    """

    answer: str
    tokens: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task of an agent's, and what is told of it.

    Attributes:
        agent: its name.
        command: what the shell runs; ``$RUN`` is what sends it through spantap, ``$QUESTION`` the
            question.
        variables: of its environment, besides those that point it to spantap.
        host: that it calls if it has no base URL.
        files: of its home, by path.
        steps: the calls in their order, by tool and arguments.
        sayings: what the model says, where the agent has no tools.
        model: that is called; ``None`` where the agent chooses it.
        span_name: of each call.
        asides: how many calls it makes beside, which offer no tools.
        session: the header in which it names its session, ``None`` where it names none.
        read: reads what it printed.
        remember: reads what it keeps below its home, or printed, of what it did.
        said: words of spantap's on it, where it is given a base URL.
        by_socket: its calls come over a WebSocket, and one of them warms the model up.
    """

    agent: str
    command: str
    variables: dict[str, str]
    host: str = "api.openai.com"
    files: dict[str, str] = field(default_factory=dict)
    steps: Sequence[tuple[str, Arguments]] = ()
    sayings: Sequence[str] = ()
    model: str | None = MODEL
    span_name: str
    asides: int = 0
    session: str | None = None
    read: Callable[[str], Report] = Report
    remember: Callable[[Path, str], History] | None = None
    said: tuple[str, ...] = ()
    by_socket: bool = False

    @property
    def turns(self) -> int:
        """The number of times that the model is asked."""
        return len(self.steps) + 1 if self.steps else len(self.sayings)

    def question(self, folder: Path) -> str:
        """The question, with its directions."""
        lines = [f"call {tool} {json.dumps(arguments)}" for tool, arguments in self.calls(folder)]
        lines += [f"say {json.dumps(text)}" for text in self.sayings]
        return "\n".join(["Rename the boat.", *lines, "And then tell me."])

    def calls(self, folder: Path) -> list[tuple[str, Arguments]]:
        """The calls, in the task's folder."""
        return [
            (tool, decode_json(json.dumps(arguments).replace(HERE, str(folder))))
            for tool, arguments in self.steps
        ]


def _read_claude(printed: str) -> Report:
    report = decode_json_object(printed)
    usage = report["usage"]
    prompt = usage["input_tokens"] + usage["cache_read_input_tokens"]
    return Report(report["result"], (prompt, usage["output_tokens"]))


def _read_gemini(printed: str) -> Report:
    report = decode_json_object(printed)
    [counted] = report["stats"]["models"].values()
    tokens = counted["tokens"]
    return Report(report["response"], (tokens["prompt"], tokens["candidates"] + tokens["thoughts"]))


def _read_codex(printed: str) -> Report:
    """Told of an error is what it tried again."""
    *before, message, end = map(decode_json_object, printed.splitlines())
    assert "error" not in {event["type"] for event in before}
    usage = end["usage"]
    return Report(message["item"]["text"], (usage["input_tokens"], usage["output_tokens"]))


def _read_opencode(printed: str) -> Report:
    """Each turn by itself; what it asks for a title is in none."""
    events = [*map(decode_json_object, printed.splitlines())]
    [answer] = [event["part"]["text"] for event in events if event["type"] == "text"]
    ends = [event["part"]["tokens"] for event in events if event["type"] == "step_finish"]
    prompt = sum(tokens["input"] + tokens["cache"]["read"] for tokens in ends)
    return Report(answer, (prompt, sum(tokens["output"] + tokens["reasoning"] for tokens in ends)))


def _read_qwen(printed: str) -> Report:
    *_, report = decode_json(printed)
    usage = report["usage"]
    return Report(report["result"], (usage["input_tokens"], usage["output_tokens"]))


def _read_pi(printed: str) -> Report:
    events = [*map(decode_json_object, printed.splitlines())]
    ends = [event["message"] for event in events if event["type"] == "message_end"]
    answers = [message for message in ends if message["role"] == "assistant"]
    used = [message["usage"] for message in answers]
    prompt = sum(usage["input"] + usage["cacheRead"] for usage in used)
    text = "".join(part.get("text", "") for part in answers[-1]["content"])
    return Report(text, (prompt, sum(usage["output"] for usage in used)))


def _read_kimi(printed: str) -> Report:
    said = [*map(decode_json_object, printed.splitlines())]
    return Report([one["content"] for one in said if "content" in one][-2])


def _read_cline(printed: str) -> Report:
    report = decode_json_object(printed.splitlines()[-1])
    usage = report["usage"]
    return Report(report["text"], (usage["inputTokens"], usage["outputTokens"]))


TASKS = (
    Task(
        agent="claude",
        command='$RUN claude -p "$QUESTION" --model claude-sonnet-4-5'
        " --permission-mode acceptEdits --output-format json",
        variables={"ANTHROPIC_API_KEY": "k"},
        host="api.anthropic.com",
        steps=[
            ("Read", {"file_path": f"{HERE}/{NOTES}"}),
            (
                "Edit",
                {"file_path": f"{HERE}/{NOTES}", "old_string": "Lotte", "new_string": "Emma"},
            ),
        ],
        model="claude-sonnet-4-5",
        span_name="Message",
        session="x-claude-code-session-id",
        read=_read_claude,
        remember=read_claude,
    ),
    Task(
        agent="gemini",
        command='$RUN gemini -p "$QUESTION" -m gemini-2.5-flash --approval-mode auto_edit -o json',
        variables={"GEMINI_API_KEY": "k"},
        host="generativelanguage.googleapis.com",
        # Where spantap would write the way to log in, a folder that all may write to is above it.
        files={
            ".gemini/settings.json": json.dumps(
                GEMINI_SETTINGS | {"security": {"auth": {"selectedType": "gemini-api-key"}}}
            )
        },
        steps=[
            ("read_file", {"file_path": NOTES}),
            (
                "replace",
                {
                    "file_path": f"{HERE}/{NOTES}",
                    "instruction": "Rename her.",
                    "old_string": "Lotte",
                    "new_string": "Emma",
                },
            ),
        ],
        model="gemini-2.5-flash",
        span_name="GenerateContentStream",
        read=_read_gemini,
        remember=read_gemini,
    ),
    Task(
        agent="codex",
        command="$RUN codex exec --json --skip-git-repo-check"
        f' -s danger-full-access -m {MODEL} "$QUESTION"',
        variables={"CODEX_API_KEY": "k", "SPANTAP_WEBSOCKETS": "refuse"},
        files={".codex/config.toml": CODEX_SETTINGS},
        steps=[
            ("exec_command", {"cmd": f"cat {NOTES}"}),
            ("exec_command", {"cmd": f"sed -i s/Lotte/Emma/ {NOTES}"}),
        ],
        span_name="Response",
        session="session-id",
        read=_read_codex,
        remember=read_codex,
        said=("spantap: for codex: -c openai_base_url=http://127.0.0.1:", "asks for a WebSocket"),
    ),
    Task(
        agent="opencode",
        # As an argument, the question would come in quotes.
        command='printf %s "$QUESTION" | $RUN opencode run --format json -m openai/gpt-5.1',
        variables={"OPENAI_API_KEY": "k"},
        steps=[
            ("read", {"filePath": f"{HERE}/{NOTES}"}),
            ("apply_patch", {"patchText": _PATCH}),
        ],
        model="gpt-5.1",
        span_name="Response",
        asides=1,
        session="x-session-affinity",
        read=_read_opencode,
        remember=read_opencode,
    ),
    Task(
        agent="qwen",
        command='$RUN qwen --auth-type openai --approval-mode auto-edit -o json "$QUESTION"',
        variables={"OPENAI_API_KEY": "k", "OPENAI_MODEL": MODEL},
        host="dashscope.aliyuncs.com",
        steps=[
            ("read_file", {"file_path": f"{HERE}/{NOTES}"}),
            (
                "edit",
                {"file_path": f"{HERE}/{NOTES}", "old_string": "Lotte", "new_string": "Emma"},
            ),
        ],
        span_name="ChatCompletion",
        read=_read_qwen,
        remember=read_qwen,
    ),
    Task(
        agent="copilot",
        command='$RUN copilot -p "$QUESTION" --allow-all-tools',
        variables={
            "COPILOT_PROVIDER_BASE_URL": "https://api.openai.com/v1",
            "COPILOT_PROVIDER_API_KEY": "k",
            "COPILOT_MODEL": MODEL,
        },
        steps=[("view", {"path": f"{HERE}/{NOTES}"}), ("apply_patch", _PATCH)],
        span_name="ChatCompletion",
        remember=read_copilot,
    ),
    Task(
        agent="cline",
        # It reads no variable of a base URL, and leaves a process behind.
        command='$RUN sh -ec \'trap "cline hub stop > /dev/null" EXIT;'
        f" cline auth openai -k k -m {MODEL} ${{OPENAI_BASE_URL:+-b $OPENAI_BASE_URL}}"
        " > /dev/null;"
        ' cline --json "$QUESTION"\'',
        variables={},
        steps=[
            ("read_files", {"files": [{"path": f"{HERE}/{NOTES}"}]}),
            ("apply_patch", {"input": _PATCH}),
        ],
        span_name="ChatCompletion",
        read=_read_cline,
        remember=read_cline,
    ),
    Task(
        agent="pi",
        # It reads no variable either.
        command="$RUN sh -ec 'mkdir -p ~/.pi/agent;"
        ' test -z "$OPENAI_BASE_URL" ||'
        ' echo "{\\"providers\\": {\\"openai\\": {\\"baseUrl\\": \\"$OPENAI_BASE_URL\\"}}}"'
        " > ~/.pi/agent/models.json;"
        ' exec pi --mode json --model openai/gpt-5.1 "$QUESTION"\'',
        variables={"OPENAI_API_KEY": "k"},
        steps=[
            ("read", {"path": NOTES}),
            ("edit", {"path": NOTES, "edits": [{"oldText": "Lotte", "newText": "Emma"}]}),
        ],
        model="gpt-5.1",
        span_name="Response",
        session="session-id",
        read=_read_pi,
        remember=read_pi,
    ),
    Task(
        agent="kimi",
        command='$RUN kimi -p "$QUESTION" --output-format stream-json',
        variables={"KIMI_MODEL_NAME": MODEL, "KIMI_MODEL_API_KEY": "k"},
        host="api.moonshot.ai",
        steps=[
            ("Read", {"path": NOTES}),
            ("Edit", {"path": NOTES, "old_string": "Lotte", "new_string": "Emma"}),
        ],
        span_name="ChatCompletion",
        read=_read_kimi,
        remember=read_kimi,
    ),
    Task(
        agent="aider",
        command=f"$RUN aider --model openai/{MODEL} --no-git --no-pretty --yes-always"
        f' --auto-test --test-cmd "grep Emma {NOTES}" --message "$QUESTION" {NOTES}',
        variables={"OPENAI_API_KEY": "k"},
        sayings=[_LISTING.format("The boat is called Ema.\n"), _LISTING.format(AFTER)],
        span_name="ChatCompletion",
    ),
)
"""aider has no tools: its model writes files, and hears of tests that fail."""

_CODEX = next(task for task in TASKS if task.agent == "codex")

CODEX_OWN = replace(
    _CODEX,
    command=_CODEX.command.replace(f" -m {MODEL}", ""),
    model=None,
    steps=[
        ("exec", f'text((await tools.exec_command({{cmd: "{command}; cat {NOTES}"}})).output)')
        for command in ("true", f"sed -i s/Lotte/Emma/ {NOTES}")
    ],
)
"""Codex with its own model, which writes programs. Their tool is in a namespace, and comes with an
item of the input."""

CODEX_BY_SOCKET, CODEX_OWN_BY_SOCKET = (
    replace(
        task,
        variables=task.variables | {"SPANTAP_WEBSOCKETS": "relay"},
        asides=1,
        said=(),
        by_socket=True,
    )
    for task in (_CODEX, CODEX_OWN)
)
"""Codex as it is by itself: its provider has WebSockets."""

GROK = Task(
    agent="grok",
    command=f'$RUN grok -p "$QUESTION" -m {MODEL} --always-approve --output-format json',
    variables={"XAI_API_KEY": "k"},
    host="api.x.ai",
    steps=[
        ("read_file", {"target_file": f"{HERE}/{NOTES}"}),
        (
            "search_replace",
            {"file_path": f"{HERE}/{NOTES}", "old_string": "Lotte", "new_string": "Emma"},
        ),
    ],
    span_name="ChatCompletion",
)
"""xAI's grok has a test by itself: it asks for titles with a tool, and leaves its last call."""
