"""Recorded sessions of Realtime, and each of their responses as an exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.apis.realtime.session import RealtimeSession
from codec.text.jsontext import decode_json, encode_json
from tests.corpus.recordings import Recording, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from codec.apis.session import SessionCall

__all__ = ("Messages", "load_realtime", "load_sessions", "replay")

Messages = list[tuple[bool, dict[str, Any]]]
"""What was said on a connection: whether the client said it, and the event."""

TICK_NS = 1_000_000
"""The time between two messages."""


def load_sessions(folder: Path) -> dict[str, Messages]:
    """The messages of each connection; one recording has two, one after the other."""
    found: dict[str, Messages] = {}
    for line in read_lines(folder, "realtime"):
        count = 0
        for text in line["response"]["body"].splitlines():
            message = decode_json(text)
            count += message["data"]["type"] == "session.created"
            name = f"{line['id'].rsplit('__', 1)[-1]}/{count}"
            found.setdefault(name, []).append((message["from"] == "client", message["data"]))
    return found


def replay(
    messages: Messages, *, continues: bool = False
) -> tuple[list[SessionCall], dict[int, list[bytes]]]:
    """Feed a session; return its calls, and the server's messages that are about each.

    Or one that is continued by another one wherever that is possible.
    """
    session = RealtimeSession()
    calls: dict[int, SessionCall] = {}
    about: dict[int, list[bytes]] = {}
    for at, (from_client, event) in enumerate(messages, 1):
        text = encode_json(event).encode()
        for call in session.feed(text, from_client=from_client, at_ns=at * TICK_NS):
            calls[id(call)] = call
            about.setdefault(id(call), []).append(text)
        if continues and (state := session.state) is not None:
            session = RealtimeSession(state=state)
    for call in session.close((len(messages) + 1) * TICK_NS):
        calls[id(call)] = call
    return [*calls.values()], about


def load_realtime(folder: Path) -> Iterator[Recording]:
    """Every response, with the request and the stream that telemetry makes of its session."""
    for name, messages in load_sessions(folder).items():
        calls, about = replay(messages)
        for number, call in enumerate(calls):
            yield Recording(
                id=f"{name}/{number}",
                target=b"/v1/realtime",
                request=encode_json(call.body).encode(),
                body=b"".join(b"data: " + text + b"\n\n" for text in about[id(call)]),
            )
