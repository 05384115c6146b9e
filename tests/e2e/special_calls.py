"""Chats that take more than the one plain upstream, or headers that say whose they are."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.demo.script import MODEL, REASONING_MODEL
from tests.e2e.calls import ask, open_client

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.text.jsontext import JsonObject
    from tests.e2e.calls import Call, Client
    from tests.e2e.spantap import RunningProxy, Upstream

__all__ = (
    "PRICED_CALLS",
    "SESSION_CALLS",
    "SESSION_USER",
    "SPECIAL_CALLS",
    "have_session",
    "have_special_chats",
    "open_clients",
)

_PRICED_MODEL = "gpt-4o-mini"
"""A model that price lists know; the demo upstream answers by any name."""

PRICED_CALLS = ("priced", "priced, streamed")
SESSION_CALLS = ("session, first", "session, second", "session, third")
SPECIAL_CALLS = ("reasoning", "stream error", *PRICED_CALLS, *SESSION_CALLS)
"""The calls of :func:`have_special_chats`, in order."""

SESSION_USER = "ada"
"""Who has the session."""

_QUESTIONS = ("Hello, who are you?", "And where do you live?", "Thank you, good-bye!")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """One client for each upstream.

    Attributes:
        default: OpenAI's manners, nobody's in particular.
        openai: OpenAI's manners, and said to be OpenAI.
        deepseek: DeepSeek's manners, and said to be DeepSeek.
        failing: breaks down.
    """

    default: Client
    openai: Client
    deepseek: Client
    failing: Client


@contextmanager
def open_clients(proxy: RunningProxy, upstreams: Sequence[Upstream]) -> Iterator[Clients]:
    """Clients of a proxy's upstreams, which are named as the attributes of :class:`Clients`."""
    with ExitStack() as stack:
        clients = {
            upstream.name: stack.enter_context(
                open_client(proxy.find_url(upstream), upstream.base_url, upstream.name)
            )
            for upstream in upstreams
        }
        yield Clients(**clients)


def have_special_chats(clients: Clients, session_id: str) -> dict[str, Call]:
    """Have one chat of each kind; the calls by the names of :data:`SPECIAL_CALLS`.

    Args:
        clients: who chats.
        session_id: of the session, never used before.
    """
    priced: JsonObject = {"model": _PRICED_MODEL, "messages": ask("What do you cost?")}
    return {
        "reasoning": clients.deepseek.stream(
            model=REASONING_MODEL, messages=ask("Think first, then greet me.")
        ),
        "stream error": clients.failing.stream(model=MODEL, messages=ask("What is the answer?")),
        "priced": clients.openai.complete(**priced, temperature=0, seed=7, service_tier="default"),
        "priced, streamed": clients.openai.stream(**priced, reasoning_effort="low", stop=["Oslo"]),
        **have_session(clients.openai, session_id),
    }


def have_session(client: Client, session_id: str) -> dict[str, Call]:
    """Have three chats of one session, each with all that was said before.

    Session, user, tags and metadata are told once by our own headers, once by another tool's, and
    once in the body.
    """
    ways: tuple[JsonObject, ...] = (
        {
            "user": "somebody else, for a header wins",
            "extra_headers": {
                "x-spantap-session-id": session_id,
                "x-spantap-user-id": SESSION_USER,
                "x-spantap-tags": "e2e, friendly",
                "x-spantap-metadata": '{"floor": 3}',
                "x-spantap-metadata-team": "guides",
            },
        },
        {
            "user": SESSION_USER,
            "extra_headers": {
                "x-session-id": session_id,
                "helicone-user-id": SESSION_USER,
                "helicone-property-feature": "small talk",
            },
        },
        {
            "user": SESSION_USER,
            "metadata": {"session_id": session_id, "floor": "4"},
            "prompt_cache_key": "talks",
        },
    )
    calls: dict[str, Call] = {}
    messages: list[JsonObject] = []
    for name, question, way in zip(SESSION_CALLS, _QUESTIONS, ways, strict=True):
        messages = [*messages, {"role": "user", "content": question}] if messages else ask(question)
        call = client.stream(model=_PRICED_MODEL, messages=messages, **way)
        messages = [*messages, {"role": "assistant", "content": call.message["content"]}]
        calls[name] = call
    return calls
