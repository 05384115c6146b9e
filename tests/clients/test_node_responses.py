"""Clients of Node speak Responses through ``spantap serve``, and each of their calls is a span.

``make quickstarts`` installs them by ``tests/clients/node/package-lock.json``.
"""

from __future__ import annotations

import re
import subprocess
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json, decode_json_object
from proxy.demo.script import MODEL
from tests.docs.test_quickstarts import node_packages, read_spans
from tests.e2e.processes import clean_environment
from tests.e2e.spantap import running_proxy, running_upstream
from tests.proxy.running_runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.e2e.spantap import RunningProxy

SCRIPTS = Path(__file__).parent / "node"
RUN_SECONDS = 90.0

_INPUT_TEXT = re.compile(
    r"llm\.input_messages\.\d+\.message\.content(s\.\d+\.message_content\.text)?"
)

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(name="proxy")
def _proxy(tmp_path: Path) -> Iterator[RunningProxy]:
    """``spantap serve`` before the demo upstream."""
    node_packages()
    with (
        running_upstream(tmp_path) as port,
        running_proxy(
            tmp_path, upstream_port=port, project="", endpoint="", protocol="http/protobuf"
        ) as proxy,
    ):
        yield proxy


def run(
    *command: str | Path, folder: Path, environment: Mapping[str, str] | None = None, text: str = ""
) -> str:
    """Run a program that reads this text to its good end; what it printed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**clean_environment(), **(environment or {})},
        input=text,
        capture_output=True,
        check=False,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def tell(span: Mapping[str, Any]) -> dict[str, Any]:
    """What a span tells of a call, in the words of the scripts."""
    answer: dict[str, list[Any]] = {"reasoning": [], "text": [], "calls": []}
    messages = (f"llm.output_messages.{index}.message" for index in count())
    for prefix in takewhile(lambda prefix: f"{prefix}.role" in span, messages):
        part, call = f"{prefix}.contents.0.message_content", f"{prefix}.tool_calls.0.tool_call"
        if f"{call}.id" in span:
            arguments = decode_json(span[f"{call}.function.arguments"])
            answer["calls"].append([span[f"{call}.id"], span[f"{call}.function.name"], arguments])
        else:
            answer[span[f"{part}.type"]].append(span[f"{part}.text"])
    counts = ("prompt", "completion", "completion_details.reasoning")
    return {
        "id": span["gen_ai.response.id"],
        "model": span["llm.model_name"],
        "asked": [text for key, text in span.items() if _INPUT_TEXT.fullmatch(key)],
        **answer,
        "finish": span["llm.finish_reason"],
        "usage": [span[f"llm.token_count.{name}"] for name in counts],
    }


@pytest.mark.parametrize("script", ["openai.mjs", "ai_sdk.mjs"])
def test_spans_tell_what_a_library_asked_and_heard(script: str, proxy: RunningProxy) -> None:
    """Plain and streamed, with reasoning, tools and their results; the counts are exact."""
    program = (SCRIPTS / script).read_text(encoding="utf-8")
    command = ("node", "--input-type=module", "-", proxy.base_url)
    heard = decode_json(run(*command, folder=node_packages(), text=program))
    assert len(heard) >= 5
    assert [tell(span) for span in read_spans(proxy.store, len(heard))] == heard


def test_codex_is_refused_a_websocket_and_goes_on_at_once(
    proxy: RunningProxy, tmp_path: Path
) -> None:
    """Its prompt is a call, and so are the results of its tools; it counts as the spans do."""
    folder = tmp_path / "codex"
    folder.mkdir()
    # It would look for plugins on GitHub.
    options = (f"openai_base_url={proxy.base_url}", "features.plugins=false")
    printed = run(
        *(node_packages() / ".bin" / "codex", "exec", "--json", "--skip-git-repo-check"),
        *("-m", MODEL, *(word for option in options for word in ("-c", option)), "Ahoy?"),
        folder=folder,
        environment={"CODEX_HOME": str(folder), "CODEX_API_KEY": "k"},
    )
    events = [decode_json_object(line) for line in printed.splitlines()]
    kinds = ["thread.started", "turn.started", "item.completed", "turn.completed"]
    assert {event["type"] for event in events} == {*kinds}  # an error where it tries again
    assert "no WebSocket" in (tmp_path / "serve.log").read_text(encoding="utf-8")
    first, last = read_spans(proxy.store, 2)
    called, answered = tell(first), tell(last)
    assert "Ahoy?" in called["asked"]
    offered = [first[f"llm.tools.{index}.tool.name"] for index in range(2)]
    assert [name for _, name, _ in called["calls"]] == offered
    [answer] = answered["text"]
    assert all(result in answer for result in answered["asked"][-2:])
    assert events[-2]["item"]["text"] == answer
    names = ("input_tokens", "output_tokens", "reasoning_output_tokens")
    counted = [events[-1]["usage"][name] for name in names]
    assert counted == [sum(pair) for pair in zip(called["usage"], answered["usage"], strict=True)]


def test_codex_runs_with_nothing_configured(tmp_path: Path) -> None:
    """``spantap run -- codex``: the flag that it needs is added, and told."""
    codex = str(node_packages() / ".bin" / "codex")
    with running_upstream(tmp_path) as port:
        variables = {"SPANTAP_UPSTREAM": f"http://127.0.0.1:{port}", "CODEX_API_KEY": "k"}
        runs = Runs(folder=tmp_path, variables=variables | {"CODEX_HOME": str(tmp_path)})
        words = ("-c", "features.plugins=false", "--skip-git-repo-check", "-m", MODEL, "Ahoy?")
        status, out, err = runs.run("run", "--", codex, "exec", *words)
    assert (status, "This is what the tools told me" in out) == (0, True), err
    assert re.search(
        r"spantap: for codex: -c openai_base_url=http://127\.0\.0\.1:\d+/~run/codex", err
    )
    assert runs.calls() == [("codex", MODEL)] * 2
    assert "spantap: 2 calls;" in err
    runs.see_none_left()
