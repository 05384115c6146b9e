"""Calls that are relayed and not observed are told of, over real sockets."""

from __future__ import annotations

import logging

import pytest

from proxy.relay.unobserved import MAX_PATHS
from tests.proxy.harness import Connection, RunningProxy, relaying, request_bytes, running_proxy
from tests.proxy.raw_client import ask
from tests.proxy.test_no_answer import unused_port

BODY = b'{"model":"m-1","input":"hi"}'


async def take_v1_only(upstream: Connection) -> None:
    """An upstream that has what is below ``/v1`` but does not know how to converse."""
    _, target, _ = upstream.request_line.split(b" ")
    has_it = target.startswith(b"/v1/") and b"converse" not in target
    await upstream.answer(b"{}", status=b"200 OK" if has_it else b"404 Not Found")


def counted(running: RunningProxy, name: str) -> dict[str, float]:
    """The numbers of a metric with one label, by its value."""
    series = running.proxy.metrics.snapshot().numbers[name]
    return {str(one.labels[0]): one.value for one in series}


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The paths in the log."""
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    return [line.split(" is relayed and not recorded: spans are made of")[0] for line in lines]


async def test_a_call_of_another_api_is_told_once_for_each_path(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever the answer, each is counted, and a query is not shown (R7)."""
    caplog.set_level(logging.INFO)
    async with relaying(take_v1_only) as (_, running):
        for target in (b"/v1/converse", b"/v1/invoke?key=canary", b"/v1/converse?b=canary"):
            await ask(running.address, request_bytes(BODY, target=target))
        await ask(running.address, request_bytes())
    assert told(caplog) == ["POST /v1/converse", "POST /v1/invoke"]
    assert counted(running, "spantap.requests.unobserved") == {
        "/v1/converse": 2,
        "/v1/invoke": 1,
    }
    assert "canary" not in caplog.text


async def test_a_call_that_no_upstream_takes_is_told_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever the answer; one that is ours is no sign that another path calls anything."""
    async with running_proxy(f"http://127.0.0.1:{unused_port()}") as running:
        for target in (b"/model/m-1/invoke?key=canary", b"/v1/tokenize"):
            answer = await ask(running.address, request_bytes(BODY, target=target))
            assert answer.error["code"] == "upstream_unreachable"
        assert counted(running, "spantap.requests.unobserved") == {"/model/m-1/invoke": 1}
    assert told(caplog)[-1:] == ["POST /model/m-1/invoke"]
    assert "canary" not in caplog.text


async def test_counts_of_tokens_are_relayed_only_where_a_setting_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """``count_tokens=false``: no span, and no word of it either.

    See ``docs/contract/apis.md#token-counts``.
    """
    caplog.set_level(logging.INFO)
    counts = request_bytes(BODY, target=b"/v1/messages/count_tokens")
    messages = request_bytes(BODY, target=b"/v1/messages")
    async with relaying(take_v1_only, count_tokens=False) as (_, running):
        assert (await ask(running.address, counts)).body == b"{}"
        await ask(running.address, messages)
        exchange = await running.sink.wait_for(1)
        assert exchange.endpoint == "messages"
        assert not counted(running, "spantap.requests.unobserved")
    assert not told(caplog)
    async with relaying(take_v1_only) as (_, running):
        await ask(running.address, counts)
        assert (await running.sink.wait_for(1)).endpoint == "count_tokens"


@pytest.mark.parametrize(
    ("method", "target", "is_told"),
    [
        (b"POST", b"/v1/tokenize", True),
        (b"POST", b"/v1/chat/completion", True),
        (b"POST", b"/wp-login", False),
        (b"PUT", b"/v1/tokenize", False),
        (b"GET", b"/v1/rerank", False),
    ],
)
async def test_of_other_requests_json_that_the_upstream_takes_is_told(
    method: bytes, target: bytes, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """An API that nobody has listed, or a slip in the path; not what tries paths out."""
    async with relaying(take_v1_only) as (_, running):
        await ask(running.address, request_bytes(BODY, method=method, target=target))
        other = request_bytes(BODY, target=b"/v1/audio").replace(b"application/json", b"text/plain")
        await ask(running.address, other)
    assert told(caplog) == ([f"POST {target.decode()}"] if is_told else [])


@pytest.mark.parametrize(
    ("target", "is_told"),
    [
        (b"/v1/videos?key=canary", True),
        (b"/v1/audio/isolation", True),
        (b"/v2/audio/isolation", False),  # which the upstream does not have
        (b"/v1/files", False),
        (b"/v1/uploads/upload_1/parts", False),
        (b"/v1/containers/cntr_1/files?a=b", False),
        (b"/v1/batches", False),
    ],
)
async def test_a_form_that_the_upstream_takes_is_told_but_not_where_it_brings_files(
    target: bytes, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A model is called with forms, too; what is stored is nobody's call."""
    form = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm-1\r\n--b--\r\n'
    request = request_bytes(form, target=target)
    request = request.replace(b"application/json", b"Multipart/form-data; boundary=b")
    async with relaying(take_v1_only) as (_, running):
        await ask(running.address, request)
        counts = counted(running, "spantap.requests.unobserved") if is_told else {}
    path = target.decode().partition("?")[0]
    assert told(caplog) == ([f"POST {path}"] if is_told else [])
    assert counts == ({path: 1} if is_told else {})
    assert "canary" not in caplog.text


async def test_a_websocket_that_is_refused_is_told_once_for_each_path(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By the upstream's path, without its query; another refused request is not told.

    It is a warning only where the path takes no observed call over HTTP.
    """
    caplog.set_level(logging.INFO)
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    asked = request_bytes(
        b"", method=b"GET", target=b"/v1/realtime?key=canary", head=upgrade, close=False
    )
    of_codex = asked.replace(b"/v1/realtime", b"/v1/responses")
    of_run = asked.replace(b"/v1/realtime", b"/~run/canary/v1/realtime")
    trace = request_bytes(b"", method=b"TRACE", target=b"/v1/trace")
    async with relaying(take_v1_only, websockets="refuse") as (upstream, running):
        for request in (asked, of_run, of_codex, trace):
            assert (await ask(running.address, request)).status in {405, 426}
        assert not upstream.requests
        counts = {"/v1/realtime": 2, "/v1/responses": 1}
        assert counted(running, "spantap.upgrades.refused") == counts
        [refused] = running.proxy.metrics.snapshot().numbers["spantap.requests.refused"]
        assert refused.value == 4
    words = "GET {} asks for a WebSocket, and is refused: SPANTAP_WEBSOCKETS may allow them"
    lines = [record for record in caplog.records if "WebSocket" in record.getMessage()]
    assert [(line.levelname, line.getMessage()) for line in lines] == [
        ("WARNING", words.format("/v1/realtime")),
        ("INFO", words.format("/v1/responses")),
    ]
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"/sk-proj-4fT9aB2cD8eF6gH1/v1/converse", "/…/v1/converse"),
        (b"/v1/threads/thread_AbC123dEf456gHi789/messages", "/v1/threads/…/messages"),
        (b"/g/0b9c1a52-7d8e-4f3a-9b1c-2d3e4f5a6b7c/v1/invoke", "/g/…/v1/invoke"),
        (
            b"/model/eu.anthropic.claude-3-5-sonnet-20241022-v2:0/invoke",
            "/model/eu.anthropic.claude-3-5-sonnet-20241022-v2:0/invoke",
        ),
        (b"/" + b"a/" * 57 + b"sk-4fT9aB2cD8eF6gH1/v1/converse", "/" + "a/" * 57 + "…"),
    ],
)
async def test_keys_and_ids_in_a_path_are_not_shown(
    path: bytes, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in the log nor in the metrics, nor where a path is cut; models are."""
    async with relaying(take_v1_only) as (_, running):
        await ask(running.address, request_bytes(BODY, target=path))
    assert told(caplog) == [f"POST {shown}"]
    assert counted(running, "spantap.requests.unobserved") == {shown: 1}


async def test_paths_are_told_up_to_a_number(caplog: pytest.LogCaptureFixture) -> None:
    """Ids in paths make no lines and no series without end."""
    async with relaying(take_v1_only) as (_, running):
        for number in range(MAX_PATHS + 3):
            target = b"/v1/threads/%d/messages" % number
            await ask(running.address, request_bytes(BODY, target=target))
        counts = counted(running, "spantap.requests.unobserved")
        overflows = counted(running, "spantap.label_overflows")
    assert len(counts) == MAX_PATHS + 1
    assert counts["_other"] == 3
    assert overflows == {"url.path": 3}
    assert told(caplog)[MAX_PATHS:] == ["POST to further paths"]


async def test_methods_that_call_no_model_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """Settings and quotas of Code Assist, and keys for sessions of Realtime."""
    async with relaying(take_all) as (_, running):
        for target in (
            *(b"/v1internal:loadCodeAssist", b"/google/v1internal:retrieveUserQuota"),
            b"/openai/v1/realtime/client_secrets?api-version=1",
        ):
            await ask(running.address, request_bytes(BODY, target=target))
        assert counted(running, "spantap.requests.unobserved") == {}
    assert told(caplog) == []


async def take_all(upstream: Connection) -> None:
    """An upstream that has everything."""
    await upstream.answer(b"{}")
