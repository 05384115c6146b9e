"""An API is one folder or module and one line in the table, and all the house knows it."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import codec
import proxy
import telemetry
from codec.text.jsontext import decode_json
from telemetry.privacy.switches import PrivacySwitches
from tests import toy
from tests.e2e.processes import ServerProcess, find_free_port

CANARIES: dict[str, Any] = {
    "model": "toy-1",
    "say": "canary-of-the-input",
    "tools": ["canary-of-the-tools"],
    "warmth": "canary-of-the-parameters",
    "picture": {"image_url": "https://images.example/canary-of-the-images.png"},
    "tool_choice": "none",
    "who": "ann",
    "talk": "t-1",
    "larder": {"key": "canary-of-the-credentials"},
}
SAID = {"model": "toy-1", "words": "canary-of-the-output", "ate": 3, "spoke": 4}

HIDDEN: dict[str, set[str]] = {
    "hide_inputs": {"input", "images", "tools", "parameters"},
    "hide_outputs": {"output"},
    "hide_input_messages": {"input", "images", "parameters"},
    "hide_output_messages": {"output"},
    "hide_input_text": {"input", "images", "parameters"},
    "hide_output_text": {"output"},
    "hide_input_images": {"images"},
    "hide_llm_invocation_parameters": {"images", "parameters"},
    "hide_llm_tools": {"tools"},
    "hide_prompts": set(),
    "hide_choices": set(),
    "hide_embeddings_vectors": set(),
    "hide_embeddings_text": set(),
    "hide_retrieval_documents": set(),
}
"""What each switch hides of a call, whose picture is a parameter; its words go with all text."""

Played = tuple[dict[bool, Any], bytes, bytes, str]

PRICE = """
[[price]]
model = "toy-1"
input = 1.0
output = 2.0
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the product with the toy API's folder, and its line in the table."""
    folder = tmp_path_factory.mktemp("house")
    for package in (codec, telemetry, proxy):
        source = Path(str(package.__file__)).parent
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(Path(str(toy.__file__)).parent / "toy", folder / "codec/apis/toy")
    table = folder / "codec/apis/table.py"
    text = table.read_text()
    assert "APIS: Final = (" in text
    table.write_text(
        text.replace("APIS: Final = (", "APIS: Final = (TOY, ", 1).replace(
            "\n__all__", "\nfrom codec.apis.toy.route import TOY\n\n__all__", 1
        )
    )
    return folder


@pytest.fixture(scope="module")
def played(house: Path) -> Played:
    """A plain and a streamed call through the proxy to the demo upstream.

    Gives both spans by whether they streamed, both answers, and the metrics.
    """
    spantap = [sys.executable, "-P", "-m", "proxy"]
    config, store = house / "spantap.toml", ("--store", str(house / "s.db"))
    config.write_text(PRICE)
    played, port, admin = find_free_port(), find_free_port(), find_free_port()
    ports = ("--port", str(port), "--admin-port", str(admin))
    settings = {
        "SPANTAP_UPSTREAM": f"http://127.0.0.1:{played}",
        "SPANTAP_CONFIG": str(config),
        "PYTHONPATH": str(house),
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_only",
    }
    upstream = [*spantap, "upstream", "--port", str(played)]
    serve = [*spantap, "serve", *ports, *store]
    with (
        ServerProcess(upstream, environment=settings, log=house / "upstream.log") as demo,
        ServerProcess(serve, environment=settings, log=house / "serve.log") as running,
    ):
        demo.wait_for(f"http://127.0.0.1:{played}/v1/models", 30)
        running.wait_for(f"http://127.0.0.1:{admin}/readyz", 30)
        plain = ask(port, "POST", "/v1/toy", CANARIES)
        streamed = ask(port, "POST", "/v1/toy", CANARIES | {"stream": True})
        shown = wait_for_metrics(admin)
        assert running.end() == 0
    listed = run([*spantap, "traces", *store, "--json"], house)
    spans = {}
    for line in listed.splitlines():
        summary = decode_json(line)
        record = decode_json(
            run([*spantap, "traces", *store, "--json", "show", summary["span_id"]], house)
        )
        spans[record["requested_streaming"]] = summary | record
    assert len(spans) == 2
    return spans, plain, streamed, shown.decode()


def ask(port: int, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
    """The body of a 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, None if body is None else json.dumps(body))
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    assert answer.status == 200
    return said


def wait_for_metrics(admin: int) -> bytes:
    """The metrics, which its processes tell each second, once they have both calls.

    Nothing of them may then stay held.
    """
    until = time.monotonic() + 20
    wanted = (b'gen_ai_operation_name="play"', b"\nspantap_bodies_held_bytes 0\n")
    while not all(text in (shown := ask(admin, "GET", "/metrics")) for text in wanted):
        assert time.monotonic() < until, shown
        time.sleep(0.1)
    return shown


def run(line: list[str], folder: Path) -> str:
    """What a command says."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        line, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_played_and_relayed(played: Any) -> None:
    """Whole, and as a stream with its own end."""
    _, plain, streamed, _ = played
    assert decode_json(plain)["words"].startswith("Hello!")
    events = [decode_json(event[6:]) for event in streamed.split(b"\n\n") if event]
    assert "".join(event.get("words", "") for event in events) == decode_json(plain)["words"]
    assert "spoke" in events[-1]


@pytest.mark.parametrize("streams", [False, True])
def test_it_has_its_span_in_both_vocabularies(played: Any, streams: bool) -> None:
    """Kind, name, messages, tools, counts, finish reason and cost."""
    spans, plain, _, _ = played
    record = spans[streams]
    words = decode_json(plain)["words"]
    attributes = record["span"]["attributes"]
    assert (record["name"], record["outcome"], record["status"]) == ("Toy", "completed", "OK")
    assert (
        attributes.items()
        >= {
            "openinference.span.kind": "LLM",
            "gen_ai.operation.name": "play",
            "llm.model_name": "toy-1",
            "gen_ai.response.model": "toy-1",
            "llm.input_messages.0.message.content": CANARIES["say"],
            "llm.output_messages.0.message.content": words,
            "llm.tools.0.tool.name": CANARIES["tools"][0],
            "llm.finish_reason": "sated",
            "user.id": "ann",
            "session.id": "t-1",
            "gen_ai.conversation.id": "t-1",
        }.items()
    )
    [said] = decode_json(attributes["gen_ai.output.messages"])
    assert said["parts"] == [{"type": "text", "content": words}]
    assert said["finish_reason"] == "stop"
    assert decode_json(attributes["gen_ai.input.messages"])[0]["role"] == "user"
    prompt, completion = (
        attributes[f"llm.token_count.{kind}"] for kind in ("prompt", "completion")
    )
    assert (prompt, completion) == (record["prompt_tokens"], record["completion_tokens"])
    assert attributes["llm.cost.total"] == pytest.approx((prompt + 2 * completion) / 1e6)
    assert (record["ttft_ms"] is not None) is streams


def test_the_credentials_of_its_servers_are_masked(played: Any, house: Path) -> None:
    """And are in no file of the store."""
    for record in played[0].values():
        attributes = record["span"]["attributes"]
        for name in ("spantap.request.body", "llm.invocation_parameters"):
            assert list(decode_json(attributes[name])["larder"]) == ["key"]
    stored = [path.read_bytes() for path in house.glob("s.db*") if path.is_file()]
    assert stored
    assert not any(b"canary-of-the-credentials" in data for data in stored)


def test_it_is_counted(played: Any) -> None:
    """Under its own operation, and not among what is relayed only."""
    shown = played[3]
    assert 'gen_ai_client_token_usage_count{gen_ai_operation_name="play"' in shown
    assert "/v1/toy" not in shown


def test_it_is_listed_and_shown(played: Any, house: Path) -> None:
    """By the same commands as any other."""
    spans, plain, _, _ = played
    store = ("--store", str(house / "s.db"))
    spantap = [sys.executable, "-m", "proxy", "traces"]
    assert run([*spantap, *store], house).count("toy-1") == 2
    shown = run([*spantap, *store, "show", spans[True]["span_id"]], house)
    assert CANARIES["say"] in shown
    assert decode_json(plain)["words"].split(".")[0] in shown


SCRIPT = """
import json, sys
from codec.apis.table import get_api
from telemetry.privacy.switches import PrivacySwitches
from tests.telemetry.exchanges import build_exchange_attributes
from telemetry.spans.rules import SpanRules
from tests.telemetry.exchanges import make_exchange

asked, said, switches = json.load(sys.stdin)
response = get_api("toy").read_said(json.dumps(said).encode())
exchange = make_exchange(asked, endpoint="toy", response=response, response_status=200)
for switch in switches:
    rules = SpanRules(privacy=PrivacySwitches(**{switch: True}), shows_genai_content=True)
    print(json.dumps(build_exchange_attributes(exchange, rules)))
"""


def test_every_switch_is_tried() -> None:
    """And so is one that will be added."""
    names = {field.name for field in fields(PrivacySwitches)}
    assert HIDDEN.keys() == {name for name in names if name.startswith("hide_")}


def test_every_switch_hides_its_content(house: Path) -> None:
    """And leaves what it does not name."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps([CANARIES, SAID, [*HIDDEN]]),
        cwd=house,
        env={"PYTHONPATH": f"{house}:{Path(str(toy.__file__)).parents[2]}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    canaries = {"input", "images", "tools", "parameters", "output"}
    for (switch, hidden), line in zip(HIDDEN.items(), done.stdout.splitlines(), strict=True):
        shown = {canary for canary in canaries if f"canary-of-the-{canary}" in line}
        assert shown == canaries - hidden, switch
