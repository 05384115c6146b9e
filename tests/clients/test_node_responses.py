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

from codec.text.jsontext import decode_json
from tests.docs.reader import read_spans
from tests.e2e.processes import clean_environment
from tests.e2e.spantap import running_proxy, running_upstream
from tests.lanes import find_node_packages

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
    find_node_packages("quickstarts")
    with (
        running_upstream(tmp_path) as port,
        running_proxy(
            tmp_path, upstream_port=port, project="", endpoint="", protocol="http/protobuf"
        ) as proxy,
    ):
        yield proxy


def run(*command: str, folder: Path, text: str, **variables: str) -> str:
    """Run a program that reads this text to its good end, with further variables."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=clean_environment() | variables,
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
    heard = decode_json(run(*command, folder=find_node_packages("quickstarts"), text=program))
    assert len(heard) >= 5
    assert [tell(span) for span in read_spans(proxy.store, len(heard))] == heard
