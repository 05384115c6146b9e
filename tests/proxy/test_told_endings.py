"""Endings that an answer itself tells, of every API, over real sockets.

What is answered is built (:mod:`tests.corpus.built`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codec.apis.table import POSTED
from tests.proxy.api_endings import BUILT, ENDINGS, head_of, request_of, tell
from tests.proxy.chat_endings import ROWS
from tests.proxy.harness import relaying
from tests.proxy.observed_ends import the_end
from tests.proxy.raw_client import ask

if TYPE_CHECKING:
    from tests.proxy.harness import Connection


def test_every_answer_that_is_built_has_its_row() -> None:
    """And every row its answer."""
    rows = {(api, name) for api, endings in ENDINGS.items() for name in endings}
    assert rows == BUILT.keys()


def test_every_api_has_endings() -> None:
    """None is left out."""
    assert {api for api, _ in ROWS} == {api.name for api in POSTED}


@pytest.mark.parametrize(("api", "name"), ROWS)
async def test_an_answer_ends_as_it_tells(api: str, name: str) -> None:
    """The client has the bytes and a clean end; the span has its row, one exception."""
    recording, ended = ROWS[api, name]

    async def script(connection: Connection) -> None:
        await connection.send(head_of(recording))
        await connection.send_chunks(recording.body)

    async with relaying(script) as (_, running):
        answer = await ask(running.address, request_of(recording))
        exchange = await the_end(running)
    assert (answer.status, answer.body, answer.clean) == (recording.status, recording.body, True)
    assert exchange.endpoint == api
    assert tell(exchange) == (ended.status, ended)
