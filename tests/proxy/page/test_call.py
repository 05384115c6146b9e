"""``/api/calls/ID``: heads and what is new, slices, pictures, downloads, copies."""

from __future__ import annotations

import base64
import re
import shlex
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from codec.text.jsontext import decode_json
from proxy.page.api.messages import MAX_PREVIEW_CHARACTERS
from proxy.page.api.slices import MAX_SLICE_CHARACTERS
from telemetry.privacy.switches import read_privacy_switches
from telemetry.raw_answer import RawAnswer, pack_raw_answer
from telemetry.spans.rules import SpanRules
from telemetry.store.rows import CallPicture, LeftOut
from telemetry.store.store import Store
from tests.proxy.page.serving import serve_api
from tests.proxy.recorded_calls import (
    TOOL,
    make_exchange,
    make_failed_exchange,
    make_row,
    make_store,
    make_tools_exchange,
    span_id_of,
)
from tests.telemetry.conversations.agents import TWO, TWO_RESULTS, Agents
from tests.telemetry.conversations.talks import answer, user

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy.page.serving import Api

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
SYSTEM = {"role": "system", "content": "Be brief."}
LONG = "é" * (MAX_SLICE_CHARACTERS + 10)


def asking(*messages: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A request of these messages."""
    return {"model": "gpt-demo", "messages": [*messages], **members}


def run(words: list[str], **environment: str) -> str:
    """What a program prints."""
    ran = subprocess.run(words, env=environment, capture_output=True, check=True)
    return ran.stdout.decode()


async def get_call(api: Api, number: int = 1) -> Any:
    """The call of a number."""
    return await api.get(f"calls/{span_id_of(number)}")


async def test_a_call_is_told_by_heads_numbers_and_times(tmp_path: Path) -> None:
    """Roles, sizes and previews of what was said; tokens and times as they were reported."""
    store = make_store(tmp_path / "t.db", make_exchange(1))
    async with serve_api(store) as api:
        told = await get_call(api)
    assert [(one["role"], one["chars"]) for one in told["messages"]] == [
        ("system", 9),
        ("user", 11),
    ]
    assert told["answer"][0]["parts"][0]["preview"] == "Hi, you."
    assert told["tokens"] == {
        "prompt": 7, "cached": 3, "written": None, "completion": 2, "reasoning": 0, "total": 9,
    }  # fmt: skip
    assert (told["timing"]["duration_ms"], told["timing"]["ttft_ms"]) == (342.0, 131.0)
    assert "connect_ms" not in told["timing"]
    assert (told["error"], told["cost"], told["conversation"]) == (None, None, None)
    assert (told["new_from"], told["system_changed"]) == (0, False)
    assert told["unchanged"] == {"messages": 0, "chars": 0}


async def test_a_call_has_its_heads_and_what_was_left_of_limits(tmp_path: Path) -> None:
    """A limit that was near is a note as well."""
    said = {"x-ratelimit-limit-tokens": "200", "x-ratelimit-remaining-tokens": "10"}
    heads = {"request": {"user-agent": "a"}, "response": said}
    store = make_store(tmp_path / "t.db", make_exchange(1, heads=heads), make_exchange(2))
    async with serve_api(store) as api:
        told, other = await get_call(api), await get_call(api, 2)
    assert told["metadata"]["headers"] == heads
    assert told["limits"] == [
        {"name": "tokens", "left": 0.05, "remaining": 10, "limit": 200, "reset": None}
    ]
    assert "little was left of the provider's rate limits: 5% of tokens" in told["notes"]
    assert other["limits"] == []
    assert not any("rate limits" in note for note in other["notes"])


async def test_tools_and_calls_are_told_by_their_beginnings(tmp_path: Path) -> None:
    """Arguments stand as they came, also where they are no JSON."""
    store = make_store(tmp_path / "t.db", make_tools_exchange(2))
    async with serve_api(store) as api:
        told = await get_call(api, 2)
        assert [one["name"] for one in told["tools"]] == ["get_weather", "custom"]
        assert told["tools"][0]["description"] == "The weather in a city."
        (before,) = told["messages"][1]["tool_calls"]
        assert before == {
            "id": "call_0",
            "name": "get_weather",
            "arguments": "not {json",
            "chars": 9,
        }
        assert told["messages"][2]["tool_call_id"] == "call_0"
        assert len(told["answer"][0]["tool_calls"]) == 2
        path = f"calls/{span_id_of(2)}"
        asked = await api.get(f"{path}/messages/0", of="answer", part="call-1")
        assert decode_json(asked["text"]) == {"city": "Oslo"}
        definition = await api.get(f"{path}/tools/0")
        assert decode_json(definition["text"]) == TOOL
        assert (await api.ask(f"{path}/tools/2")).status == 404


async def test_a_long_text_comes_in_slices(tmp_path: Path) -> None:
    """A preview in the call; then slices, each of which names the next."""
    store = make_store(tmp_path / "t.db", make_exchange(1, request_json=asking(user(LONG))))
    async with serve_api(store) as api:
        head = (await get_call(api))["messages"][0]
        assert (head["chars"], len(head["parts"][0]["preview"])) == (
            len(LONG),
            MAX_PREVIEW_CHARACTERS,
        )
        path = f"calls/{span_id_of(1)}/messages/0"
        first = await api.get(path, part=0)
        second = await api.get(path, part=0, from_=first["next"])
        assert first["text"] + second["text"] == LONG
        assert (second["next"], second["chars"]) == (None, len(LONG))
        for wrong in ("calls/0000000000000000/messages/0", f"{path}?part=1", f"{path}9"):
            assert (await api.ask(wrong)).status == 404
        assert (await api.ask("calls/xyz")).json["error"]["code"] == "parameter"


async def test_what_is_new_is_told_beside_the_call_before(tmp_path: Path) -> None:
    """L2: the results of tools are new; the system prompt's change does not make all of it new."""
    dated = {"role": "system", "content": "It is Thursday."}
    with Agents(tmp_path / "t.db") as agents:
        first = agents.call(SYSTEM, user("Fix it, please"), said=TWO)
        second = agents.call(SYSTEM, user("Fix it, please"), TWO, *TWO_RESULTS, said=answer("Done"))
        third = agents.call(
            dated, user("Fix it, please"), TWO, *TWO_RESULTS, answer("Done"), user("And now?"),
            said=answer("No"),
        )  # fmt: skip
    async with serve_api(tmp_path / "t.db") as api:
        told = [await api.get(f"calls/{one}") for one in (first, second, third)]
    places = [one["conversation"] for one in told]
    assert [one["position"] for one in places] == [1, 2, 3]
    assert {one["calls"] for one in places} == {3}
    assert [(one["previous"], one["next"]) for one in places] == [
        (None, second), (first, third), (second, None),
    ]  # fmt: skip
    assert [one["goes_on_from"] for one in places] == [None, first, second]
    assert [one["new_from"] for one in told] == [0, 2, 5]
    assert [one["unchanged"]["messages"] for one in told] == [0, 2, 4]
    assert [one["system_changed"] for one in told] == [False, False, True]


async def test_a_system_block_that_names_the_bill_changes_no_system_prompt(tmp_path: Path) -> None:
    """Claude Code's first one differs in every request."""
    marked = [
        {
            "role": "system",
            "content": [
                {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1; cch={cch};"},
                {"type": "text", "text": "Be brief."},
            ],
        }
        for cch in ("3f2a1", "9bc04")
    ]
    with Agents(tmp_path / "t.db") as agents:
        agents.call(marked[0], user("Fix it, please"), said=TWO)
        second = agents.call(
            marked[1], user("Fix it, please"), TWO, *TWO_RESULTS, said=answer("Done")
        )
    async with serve_api(tmp_path / "t.db") as api:
        told = await api.get(f"calls/{second}")
    assert (told["system_changed"], told["unchanged"]["messages"]) == (False, 2)


async def test_the_difference_of_two_calls_is_told_message_by_message(tmp_path: Path) -> None:
    """What is the same is told by its number, words where a message changed."""
    with Agents(tmp_path / "t.db") as agents:
        first = agents.call(SYSTEM, user("One two three"), said=answer("Yes"))
        other = agents.call(SYSTEM, user("One 2 three"), user("More"), said=answer("No"))
        last = agents.call(
            SYSTEM, user("One two three"), answer("Yes"), user("x"), said=answer("n")
        )
    async with serve_api(tmp_path / "t.db") as api:
        told = await api.get(f"calls/{other}/diff", with_=first)
        assert [one["op"] for one in told["operations"]] == ["same", "changed", "added"]
        assert told["operations"][1]["words"] == [
            ["same", "One "], ["removed", "two"], ["added", "2"], ["same", " three"],
        ]  # fmt: skip
        grown = await api.get(f"calls/{last}/diff")
        assert (grown["with"], grown["same"]) == (first, 2)
        assert [one["op"] for one in grown["operations"]] == ["same", "added", "added"]
        assert (await api.ask(f"calls/{first}/diff")).status == 404


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0" + bytes(20), "image/jpeg"),
        (b"GIF89a" + bytes(20), "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 " + bytes(20), "image/webp"),
        (b"<svg onload='alert(1)'></svg>", None),
        (b"", None),
    ],
)
async def test_a_picture_is_what_its_first_bytes_say(
    tmp_path: Path, data: bytes, kind: str | None
) -> None:
    """S4: of png, jpeg, gif and webp the bytes; of anything else nothing, whatever its URL says."""
    url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    asked = asking({"role": "user", "content": parts})
    store = make_store(tmp_path / "t.db", make_exchange(1, request_json=asked))
    async with serve_api(store) as api:
        part = (await get_call(api))["messages"][0]["parts"][1]
        told = await api.ask(f"calls/{span_id_of(1)}/images/0", part=1)
    assert (part["kind"], part["url"]) == ("image", None)
    if kind is None:
        assert (part["image"], told.status) == (None, 404)
    else:
        assert part["image"] == {
            "type": kind,
            "bytes": len(data),
            "digest": None,
            "left_out": None,
        }
        assert (told.status, told.headers["Content-Type"], told.body) == (200, kind, data)


async def test_a_picture_beside_the_span_is_shown_by_its_digest(tmp_path: Path) -> None:
    """Its type is that of its bytes; each answer says that no browser may guess another one."""
    long = "data:image/png;base64," + base64.b64encode(PNG + bytes(40_000)).decode()
    content = [{"type": "image_url", "image_url": {"url": long}}] * 3
    exchange = make_exchange(1, request_json=asking({"role": "user", "content": content}))
    data = PNG + bytes(40_000)
    pictures = (
        CallPicture(is_answer=False, message=0, part=0, type="image/png", data=data),
        CallPicture(is_answer=False, message=0, part=1, left_out=LeftOut.TOO_LARGE, size_bytes=9),
        CallPicture(is_answer=True, message=0, part=1, type="image/gif", data=b"GIF89a"),
    )
    with Store.open(tmp_path / "t.db") as store:
        store.add([replace(make_row(exchange), pictures=pictures)])
    async with serve_api(tmp_path / "t.db") as api:
        call = await get_call(api)
        kept, left_out, limited = [part["image"] for part in call["messages"][0]["parts"]]
        answered = call["answer"][0]["parts"][-1]
        told = await api.ask(f"calls/{span_id_of(1)}/pictures/{kept['digest']}")
        made = await api.ask(f"calls/{span_id_of(1)}/pictures/{answered['image']['digest']}")
        for path in (f"{span_id_of(1)}/pictures/{'0' * 64}", f"{span_id_of(1)}/pictures/a"):
            assert (await api.ask(f"calls/{path}")).status == 404
    assert (told.status, told.headers["Content-Type"], told.body) == (200, "image/png", data)
    assert told.headers["X-Content-Type-Options"] == "nosniff"
    assert told.headers["Cache-Control"] == "no-store"
    assert (made.headers["Content-Type"], made.body) == ("image/gif", b"GIF89a")
    assert (left_out["digest"], left_out["bytes"]) == (None, 9)
    assert "8 MiB" in left_out["left_out"]
    assert "OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH" in limited["left_out"]


@pytest.mark.parametrize(
    ("secret", "told"),
    [("", "OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH"), ("__REDACTED__", "hidden by the settings")],
)
async def test_no_copy_is_made_of_a_request_without_its_picture(
    tmp_path: Path, secret: str, told: str
) -> None:
    """Only where a setting hides something is it said to be hidden."""
    url = "data:image/png;base64," + base64.b64encode(PNG + bytes(40_000)).decode()
    content = [
        {"type": "text", "text": f"What is it? {secret}"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    exchange = make_exchange(1, request_json=asking({"role": "user", "content": content}))
    async with serve_api(make_store(tmp_path / "t.db", exchange)) as api:
        refused = await api.ask(f"calls/{span_id_of(1)}/copy", as_="curl")
    assert refused.status == 404
    assert told in refused.json["error"]["message"]


async def test_a_picture_elsewhere_is_its_address(tmp_path: Path) -> None:
    """Nothing is fetched, and no other part of a message is a picture."""
    url = "https://example.com/cat.png"
    content = [{"type": "image_url", "image_url": {"url": url}}]
    asked = asking({"role": "user", "content": content})
    store = make_store(tmp_path / "t.db", make_exchange(1, request_json=asked))
    async with serve_api(store) as api:
        (part,) = (await get_call(api))["messages"][0]["parts"]
        assert (part["url"], part["image"], part["preview"]) == (url, None, "")
        assert (await api.ask(f"calls/{span_id_of(1)}/images/0")).status == 404


async def test_bodies_and_the_span_are_downloads(tmp_path: Path) -> None:
    """The request as it was sent, with a name to be saved under; nothing that a browser runs."""
    store = make_store(tmp_path / "t.db", make_exchange(1), make_failed_exchange(2))
    async with serve_api(store) as api:
        path = f"calls/{span_id_of(1)}/raw"
        for part in ("request", "response", "span"):
            told = await api.ask(path, part=part)
            assert told.headers["Content-Type"] == "application/json"
            name = f'attachment; filename="{span_id_of(1)}-{part}.json"'
            assert told.headers["Content-Disposition"] == name
        assert decode_json((await api.ask(path)).body)["temperature"] == 0.5
        assert (await api.ask(path, part="all")).status == 400
        assert (await get_call(api))["raw"]["stream"] is None
        for more in ("raw?part=stream", "stream"):
            told = await api.ask(f"calls/{span_id_of(1)}/{more}")
            assert told.status == 404
            assert "SPANTAP_RAW" in told.json["error"]["message"]


async def test_an_answer_as_it_came_is_lines_with_their_times(tmp_path: Path) -> None:
    """In slices; the download has its bytes with their content coding."""
    exchange = make_exchange(1)
    events = [f"data: {number}\n\n".encode() for number in range(300)]
    encoder = zlib.compressobj(wbits=31)
    reads = [encoder.compress(one) + encoder.flush(zlib.Z_SYNC_FLUSH) for one in events]
    answer = RawAnswer(
        content_type="text/event-stream",
        content_encoding="gzip",
        first_ns=exchange.start_ns + 250_000_000,
        waits_ns=(0, *[20_000_000] * 298, 5_000_000_000),
        sizes_bytes=tuple(map(len, reads)),
        left_bytes=5,
        body=b"".join(reads),
    )
    with Store.open(tmp_path / "t.db") as store:
        store.add([replace(make_row(exchange), raw=pack_raw_answer(answer))])
    async with serve_api(tmp_path / "t.db") as api:
        assert (await get_call(api))["raw"]["stream"] == len(answer.body)
        path = f"calls/{span_id_of(1)}"
        first = await api.get(f"{path}/stream")
        second = await api.get(f"{path}/stream", from_=first["next"])
        told = await api.ask(f"{path}/raw", part="stream")
    assert told.body == answer.body
    assert told.headers["Content-Type"] == "application/octet-stream"
    name = f'attachment; filename="{span_id_of(1)}-answer.bin"'
    assert told.headers["Content-Disposition"] == name
    lines = first["lines"] + second["lines"]
    assert (len(first["lines"]), first["next"], second["next"]) == (400, 400, None)
    assert "".join(f"{line['text']}\n" for line in lines).encode() == b"".join(events)
    assert (first["bytes"], first["left_bytes"], first["reads"]) == (len(answer.body), 5, 300)
    assert first["duration_ms"] == pytest.approx(298 * 20 + 5_000)
    assert [line["at_ms"] for line in lines[:3]] == [250, 250, 270]
    assert [line["wait_ms"] for line in lines[:3]] == [0, None, 20]
    assert [line["wait_ms"] for line in lines if (line["wait_ms"] or 0) > 1_000] == [5_000]


async def test_a_call_that_failed_says_why(tmp_path: Path) -> None:
    """The error's class and message, and the answer as it came."""
    store = make_store(tmp_path / "t.db", make_failed_exchange(2))
    async with serve_api(store) as api:
        told = await get_call(api, 2)
    assert told["error"]["type"] == "429"
    assert "Rate limit reached." in told["error"]["message"]
    assert told["tokens"]["prompt"] is None


async def test_a_command_makes_the_call_again(tmp_path: Path) -> None:
    """A shell gives curl what was recorded, whatever quotes are in it, and a key of one's own."""
    asked = asking(user('it\'s $HOME `id` "x" \\ \u202e\nnew'), stream=True)
    store = make_store(tmp_path / "t.db", make_exchange(1, request_json=asked))
    async with serve_api(store) as api:
        text = (await api.get(f"calls/{span_id_of(1)}/copy"))["text"]
    echo = 'curl() { for a in "$@"; do printf "%s\\0" "$a"; done; }'
    given = run(["sh", "-c", f"{echo}; {text}"], OPENAI_API_KEY="my-key").split("\0")
    assert given[0] == "http://127.0.0.1:8080/v1/chat/completions"
    assert "Authorization: Bearer my-key" in given
    assert decode_json(given[given.index("--data-raw") + 1]) == asked
    assert shlex.split(text)


@pytest.mark.parametrize("path", ["/openai@evil.example/v1/chat/completions", "@evil.example/v1"])
@pytest.mark.parametrize("host", ["api.openai.com", "127.0.0.1"])
async def test_no_path_leads_the_key_to_another_host(tmp_path: Path, path: str, host: str) -> None:
    """A client chose the path; who copies the command gives a key to the host that was called."""
    exchange = make_exchange(1, path=path, server_address=host, server_port=443)
    store = make_store(tmp_path / "t.db", exchange)
    async with serve_api(store) as api:
        for form in ("curl", "python"):
            text = (await api.get(f"calls/{span_id_of(1)}/copy", as_=form))["text"]
            (url,) = re.findall(r"https?://[^'\"\s]+", text)
            assert urlsplit(url).hostname == host


async def test_a_program_makes_the_call_again(tmp_path: Path) -> None:
    """OpenAI's SDK is called by its own names; what it does not know is an extra member."""
    asked = asking(user("it's '''\n"), temperature=0.5, top_k=3, stream=False)
    store = make_store(tmp_path / "t.db", make_exchange(1, request_json=asked))
    async with serve_api(store) as api:
        text = (await api.get(f"calls/{span_id_of(1)}/copy", as_="python"))["text"]
        body = (await api.get(f"calls/{span_id_of(1)}/copy", as_="json"))["text"]
    assert decode_json(body) == asked
    stub = (
        "import json, sys, types\n"
        "class OpenAI:\n"
        "    def __init__(self, **given): self.given = given\n"
        "    def __getattr__(self, name): return self\n"
        "    def __call__(self, **told): return json.dumps([self.given, told])\n"
        "sys.modules['openai'] = types.SimpleNamespace(OpenAI=OpenAI)\n"
    )
    client, told = decode_json(run([sys.executable, "-c", stub + text], OPENAI_API_KEY="k"))
    assert client == {"base_url": "http://127.0.0.1:8080/v1", "api_key": "k"}
    assert told.pop("extra_body") == {"top_k": 3}
    assert told == {name: value for name, value in asked.items() if name != "top_k"}


async def test_what_is_hidden_is_neither_shown_nor_copied(tmp_path: Path) -> None:
    """Privacy: of a request that is hidden there is nothing, and the copy says why."""
    rules = SpanRules(privacy=read_privacy_switches({"OPENINFERENCE_HIDE_INPUTS": "true"}))
    with Agents(tmp_path / "t.db", rules) as agents:
        span_id = agents.call(user("my c4n4ry"), said=answer("yes"))
    async with serve_api(tmp_path / "t.db") as api:
        told = [await api.ask(f"calls/{span_id}{more}") for more in ("", "/raw", "/raw?part=span")]
        copied = await api.ask(f"calls/{span_id}/copy")
    assert not any(b"c4n4ry" in one.body for one in told)
    assert told[0].status == 200
    assert (copied.status, copied.json["error"]["code"]) == (404, "not_found")
    assert "hidden" in copied.json["error"]["message"]
