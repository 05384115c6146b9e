"""The calls of ``spantap demo``: chats of all kinds, and one call of each other API.

Each is told in the words of the *client*, so that a reader can hold it against what spantap
recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.demo.chats import CHATS
from proxy.demo.clients import is_sdk_installed, open_client
from proxy.demo.other_apis import CALLS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_ALL = CHATS | CALLS

CALL_COUNT = len(_ALL) + 1
"""The number of calls that :func:`run_calls` makes: the tools' chat takes two."""


async def run_calls(
    base_url: str, *, use_sdk: bool | None = None
) -> AsyncGenerator[tuple[str, str]]:
    """Make the calls one after the other; of each its title, and one line of what came back.

    Args:
        base_url: where the server is, e.g. ``http://127.0.0.1:4000/v1``.
        use_sdk: call by the ``openai`` package; by default where it is installed.

    Raises:
        OSError: nobody answers there (the SDK raises its own ``APIConnectionError``).
    """
    use_sdk = is_sdk_installed() if use_sdk is None else use_sdk
    async with open_client(base_url, use_sdk=use_sdk) as client:
        for title, call in _ALL.items():
            yield title, await call(client)
