"""What a client says without end, or to no end: it costs those who watch no more than a moment."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from proxy.reading.flat_messages import ContentPart, RecordedMessage
from proxy.reading.growth import find_growth
from tests.proxy.page.serving import serve_api
from tests.proxy.recorded_calls import make_exchange, make_store, span_id_of
from tests.telemetry.conversations.talks import user

if TYPE_CHECKING:
    from pathlib import Path


def say(text: str) -> RecordedMessage:
    """A user's message."""
    return RecordedMessage(
        index=0,
        role="user",
        name=None,
        tool_call_id=None,
        parts=(ContentPart(kind="text", text=text),),
        tool_calls=(),
    )


def test_one_message_ten_thousand_times_is_compared_at_once() -> None:
    """What is new behind a beginning that was cut is found in time by the length of the history."""
    same = [say("a")] * 10_000
    began = time.process_time()
    growth = find_growth([say("now"), *same, say("new")], [say("before"), *same])
    assert time.process_time() - began < 5
    assert (growth.new_from, growth.unchanged) == (10_001, range(1, 10_001))


def test_the_longest_end_that_comes_again_is_the_first_of_its_length() -> None:
    """Two that are as long: the one further ahead counts, so that nothing new is passed over."""
    growth = find_growth(list(map(say, "xabyab")), list(map(say, "zab")))
    assert (growth.new_from, growth.unchanged) == (3, range(1, 3))


async def test_a_hundred_messages_that_all_changed_are_told_at_once(tmp_path: Path) -> None:
    """Words are compared as long as there is time; that a message changed is told of all."""
    chosen = random.Random(7)
    histories = [
        [user(" ".join(chosen.choices("abcd", k=4_000))) for _ in range(100)] for _ in range(2)
    ]
    store = make_store(
        tmp_path / "t.db",
        *(
            make_exchange(number, request_json={"model": "gpt-demo", "messages": history})
            for number, history in enumerate(histories, 1)
        ),
    )
    async with serve_api(store) as api:
        began = time.monotonic()
        told = await api.get(f"calls/{span_id_of(2)}/diff", with_=span_id_of(1))
        assert time.monotonic() - began < 5
    operations = told["operations"]
    assert [one["op"] for one in operations] == ["changed"] * 100
    assert operations[0]["words"] is not None
    assert operations[-1]["words"] is None
