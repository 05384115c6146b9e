"""What each switch hides is on no screen of the page, in none of its downloads, and in no copy.

Calls of every API with a canary in each field are in one store, each switch alone.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.resources import Resource

from telemetry.frames.frame import Begin
from telemetry.service import TelemetryService
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.store.store import Store
from tests.proxy.page.serving import serve_api
from tests.telemetry.canaries import CANARY
from tests.telemetry.canary_shapes import HIDDEN, OF_SOME_ENDPOINTS, SHAPES
from tests.telemetry.tap_frames import begin, exchange_frames, identity
from tests.telemetry.test_canary import rules_of

if TYPE_CHECKING:
    from pathlib import Path

    from telemetry.spans.rules import SpanRules

_PARTS = ("span", "request", "response", "stream")
_PATHS = ("", *(f"/raw?part={part}" for part in _PARTS), "/stream", "/copy?as=json")
_LISTS = (
    *("calls?limit=300", "stats", "conversations?lone=true", "groups", "groups?by=user"),
    *("failures", "rankings", "rankings?by=run"),
)

CALLS = [(name, members) for name, (members, _) in SHAPES.items() if "every" not in name]


def record(path: Path, rules: SpanRules) -> None:
    """Record all calls under the rules."""
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), rules)
    with Store.open(path) as store:
        service = TelemetryService(recorder, store, rules=rules, now_ns=time.time_ns)
        for number, (_, members) in enumerate(CALLS, 1):
            given: dict[str, Any] = dict(members)
            endpoint = given.pop("endpoint", "chat.completions")
            place = given.pop("path", "/v1/chat/completions")
            first, *frames = exchange_frames(given.pop("data"), number=number, **given)
            assert isinstance(first, Begin)
            for frame in (begin(number, endpoint=endpoint, path=place), *frames):
                service.feed(frame)
        service.commit()
        assert service.counts.failed == 0


async def look(path: Path) -> tuple[dict[str, set[str]], set[str]]:
    """The canaries in all that the page has of each call; and those in its lists."""
    found: dict[str, set[str]] = {}
    async with serve_api(path) as api:
        for number, (name, _) in enumerate(CALLS, 1):
            span_id = identity(number).span_id
            told = [(await api.ask(f"calls/{span_id}{more}")).body for more in _PATHS]
            found[name] = {word.decode() for word in CANARY.findall(b"".join(told))}
        lists = b"".join([(await api.ask(one)).body for one in _LISTS])
        for one in (await api.get("conversations", lone="true"))["conversations"]:
            for more in ("", "/transcript", "/context"):
                lists += (await api.ask(f"conversations/{one['number']}{more}")).body
    return found, {word.decode() for word in CANARY.findall(lists)}


@pytest.mark.parametrize("switch", [*HIDDEN, "", "SPANTAP_CONTENT"])
async def test_what_a_switch_hides_is_not_on_the_page(tmp_path: Path, switch: str) -> None:
    """Without a switch all that was said is on the page, so each of these can fail."""
    path = tmp_path / "traces.db"
    is_ours = not switch.startswith("HIDE_")
    rules = (
        rules_of(content=False)
        if switch == "SPANTAP_CONTENT"
        else rules_of(*filter(None, [switch]))
    )
    record(path, rules)
    found, listed = await look(path)
    if not switch:
        assert found == {name: SHAPES[name][1] for name, _ in CALLS}
        assert listed
        return
    for name, members in CALLS:
        endpoint = members.get("endpoint", "chat.completions")
        if is_ours:
            assert found[name] == set()
        elif endpoint in OF_SOME_ENDPOINTS.get(switch, (endpoint,)):
            assert not found[name] & HIDDEN[switch]
    if is_ours:
        assert listed == set()
    elif switch not in OF_SOME_ENDPOINTS:
        assert not listed & HIDDEN[switch]
