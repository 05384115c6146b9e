"""Cases of public bug reports: an answer that some provider gave, and what its span must say.

Like the recordings, they stay where they are: ``cases/cases.jsonl`` in their folder, one case a
line. Each is played over real sockets from a fake provider, to a client that asks it directly and
to one that asks through a proxy with every setting of the case, whose spans go into a real store.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.resources import Resource

from proxy.app import Proxy
from proxy.settings.settings import load_settings
from proxy.settings.spans import SpanSettings, build_span_rules
from telemetry.frames.frame import End, decode_frames, encode_frames
from telemetry.in_process import FrameByFrame
from telemetry.service import TelemetryService
from telemetry.spans.otlp.decoding import decode_spans
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.store.store import Store
from tests.corpus.oracle import parse_json
from tests.corpus.recordings import FOLDER
from tests.proxy.harness import ScriptedUpstream
from tests.proxy.raw_client import ask

if TYPE_CHECKING:
    from telemetry.frames.frame import Frame
    from telemetry.spans.otlp.decoding import DecodedSpan
    from tests.proxy.harness import Connection
    from tests.proxy.raw_client import Answer

__all__ = ("CASES_FILE", "load_cases", "play")

CASES_FILE = None if FOLDER is None else FOLDER / "cases" / "cases.jsonl"

_KIND = "openinference.span.kind"
_DERIVED_KINDS = {"AGENT", "CHAIN", "TOOL"}
_EXPECTATIONS = {"status", "attributes", "counts", "anomalies", "client", "same"}


def load_cases() -> list[dict[str, Any]]:
    """Every case; none where there is no file of them."""
    if CASES_FILE is None or not CASES_FILE.is_file():
        return []
    return [parse_json(line) for line in CASES_FILE.read_bytes().splitlines()]


async def play(case: dict[str, Any]) -> list[str]:
    """Play a case; what is wrong, in words, nothing where all is well."""
    calls = [_Call(**_without_notes(call)) for call in case.get("calls", [case])]
    with tempfile.TemporaryDirectory() as folder:
        return await _play_calls(calls, case.get("config"), Path(folder))


def _without_notes(call: dict[str, Any]) -> dict[str, Any]:
    return {name: call[name] for name in ("request", "response", "expect")}


@dataclass(frozen=True, kw_only=True)
class _Call:
    """One request, the provider's answer, and what must be recorded."""

    request: dict[str, Any]
    response: dict[str, Any]
    expect: dict[str, Any]

    @property
    def request_bytes(self) -> bytes:
        """The request on the wire, on a connection that ends with it."""
        method = self.request.get("method", "POST")
        body = _read_body(self.request["body"]) if "body" in self.request else b""
        fields = {
            "Host": "client.example",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
        own = self.request.get("headers") or {}
        named = {name.lower() for name in own}
        fields = {name: text for name, text in fields.items() if name.lower() not in named} | own
        head = [f"{method} {self.request['path']} HTTP/1.1"]
        head += [f"{name}: {text}" for name, text in fields.items()]
        return "\r\n".join([*head, "", ""]).encode() + body


def _read_body(body: dict[str, Any]) -> bytes:
    if "base64" in body:
        return base64.b64decode(body["base64"])
    return body["text"].encode() if "text" in body else json.dumps(body["json"]).encode()


async def _play_calls(calls: list[_Call], config: str | None, folder: Path) -> list[str]:
    script = _Script()
    faults: list[str] = []
    seen: list[dict[str, Any]] = []
    async with ScriptedUpstream(script) as upstream:
        file = folder / "spantap.toml"
        file.write_text((config or 'upstream = "{upstream}"\n').replace("{upstream}", upstream.url))
        settings = load_settings({"port": 0, "admin_port": 0, "linger_seconds": 0}, str(file))
        with Store.open(folder / "spans.db", delivers=True) as store:
            sink = _StoringSink(store, SpanSettings.of(settings))
            proxy = Proxy(settings, sink)
            await proxy.start()
            try:
                for number, call in enumerate(calls):
                    script.response = call.response
                    direct = await ask(upstream.address, call.request_bytes)
                    proxied = await ask(proxy.address, call.request_bytes)
                    spans = await sink.take_spans()
                    words = _find_faults(call.expect, direct, proxied, spans, seen)
                    faults += [f"call {number}: {word}" for word in words]
                    seen.append(dict(spans[0].attributes) if spans else {})
            finally:
                await proxy.close()
    return faults


class _Script:
    """The provider: answers as the case says."""

    response: dict[str, Any]

    async def __call__(self, connection: Connection) -> None:
        asks = b'"include_usage"' in connection.body
        response = self.response
        if asks and "asked" in response:
            response = response | response["asked"]
        pieces = [one for one in response["pieces"] if asks or not one.get("if_asked")]
        framing = response.get("framing", "chunked")
        await connection.send(_write_head(response, framing, pieces))
        for piece in pieces:
            await asyncio.sleep(piece.get("pause", 0))
            if data := _read_piece(piece):
                chunk = b"%x\r\n%b\r\n" % (len(data), data)
                await connection.send(chunk if framing == "chunked" else data)
        if framing == "chunked":
            await connection.send(b"0\r\n\r\n")
        connection.writer.close()


def _write_head(response: dict[str, Any], framing: str, pieces: list[dict[str, Any]]) -> bytes:
    lines = [f"HTTP/1.1 {response.get('status', 200)} As Reported"]
    lines += [f"{name}: {text}" for name, text in (response.get("headers") or {}).items()]
    if framing == "length":
        lines.append(f"content-length: {sum(len(_read_piece(piece)) for piece in pieces)}")
    elif framing == "chunked":
        lines.append("transfer-encoding: chunked")
    return "\r\n".join([*lines, "", ""]).encode()


def _read_piece(piece: dict[str, Any]) -> bytes:
    body = _read_body(piece) if {"text", "base64", "json"} & piece.keys() else b""
    return body * int(piece.get("times", 1))


class _StoringSink:
    """Observes in line what went through the frames' byte form, and commits each call's end."""

    def __init__(self, store: Store, settings: SpanSettings) -> None:
        rules = build_span_rules(settings, os.environ)
        recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), rules)
        self._store = store
        self._service = TelemetryService(recorder, store, rules=rules, now_ns=time.time_ns)
        self._taken: set[str] = set()

    def emit(self, frame: Frame) -> None:
        [frame] = decode_frames(encode_frames([frame]))
        self._service.feed(frame)
        if isinstance(frame, End):
            self._service.commit()

    def open_exchange(self, number: int) -> FrameByFrame:
        del number  # every frame has it
        return FrameByFrame(self.emit)

    async def take_spans(self) -> list[DecodedSpan]:
        """The spans of calls since the last look, those of runs left out; a second for one."""
        for _ in range(100):
            pending = self._store.read_due(1000, 1 << 26, time.time_ns())
            fresh = [one for one in pending if one.span_id not in self._taken]
            self._taken |= {one.span_id for one in fresh}
            spans = [span for one in fresh for span in decode_spans(one.span)]
            calls = [one for one in spans if one.attributes.get(_KIND) not in _DERIVED_KINDS]
            if calls:
                return calls
            await asyncio.sleep(0.01)
        return []


# --- judging ---------------------------------------------------------------------------------


def _find_faults(
    expect: dict[str, Any],
    direct: Answer,
    proxied: Answer,
    spans: list[DecodedSpan],
    before: list[dict[str, Any]],
) -> list[str]:
    if unknown := expect.keys() - _EXPECTATIONS:
        return [f"a case expects what nobody checks: {unknown}"]
    faults = _compare_answers(direct, proxied)
    if len(spans) != 1:
        return [*faults, f"{len(spans)} spans"]
    [span] = spans
    told = dict(span.attributes)
    if span.status != expect.get("status", span.status):
        faults.append(f"status {span.status}, not {expect['status']}")
    for key, wanted in expect.get("attributes", {}).items():
        if not _matches(told.get(key), wanted):
            faults.append(f"{key}: {told.get(key)!r}, not {wanted!r}")
    for prefix, wanted in expect.get("counts", {}).items():
        places = {key[len(prefix) :].partition(".")[0] for key in told if key.startswith(prefix)}
        if len(places) != wanted:
            faults.append(f"{len(places)} of {prefix}, not {wanted}")
    if "anomalies" in expect:
        anomalies = parse_json(str(told.get("metadata", "{}"))).get("anomalies", [])
        if not _matches(sorted(anomalies), sorted(expect["anomalies"])):
            faults.append(f"anomalies {anomalies}, not {expect['anomalies']}")
    for key, number in expect.get("same", {}).items():
        if told.get(key) is None or told.get(key) != before[number].get(key):
            faults.append(f"{key}: {told.get(key)!r}, not {before[number].get(key)!r}")
    return faults


def _compare_answers(direct: Answer, proxied: Answer) -> list[str]:
    if (direct.status, direct.body) == (proxied.status, proxied.body):
        return []
    return [f"the client got {proxied.status} {proxied.body!r}, not {direct.body!r}"]


def _matches(told: Any, wanted: Any) -> bool:
    """Whether a value is the one wanted, or as it is described; ``None``: absent."""
    if not isinstance(wanted, dict):
        return bool(told == wanted)
    [(how, what)] = wanted.items()
    if how == "any_of":
        return any(_matches(told, one) for one in what)
    if told is None:
        return False
    if how == "near":
        return bool(told == pytest.approx(what))
    return bool(parse_json(told) == what if how == "json" else what in told)
