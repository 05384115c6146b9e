r"""The stream as events, with snapshots, for library users.

:class:`ChatEventStream` takes chunks or bytes and returns events, in the order of the wire or in
that of openai-python; it also has the answer, so far and final. :func:`parse_partial_json` makes
the events' ``parsed`` values.

Doors: ``ChatEventStream``, ``EventOrder``, ``parse_partial_json``, ``parse_payload``, and the
events themselves.

>>> stream = ChatEventStream()
>>> choice = b'{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}'
>>> for event in stream.feed_bytes(b'data: {"choices": [' + choice + b"]}\n\n"):
...     match event:
...         case ContentDelta():
...             print(event.delta, event.snapshot)
...         case ContentDone():
...             print("done:", event.content)
Hi Hi
done: Hi
>>> stream.snapshot["choices"][0]["message"]
{'role': 'assistant', 'content': 'Hi'}
"""

from __future__ import annotations

from codec.events.kinds import (
    ArgumentsDelta,
    ArgumentsDone,
    ChatEvent,
    ChunkEvent,
    ContentDelta,
    ContentDone,
    ErrorEvent,
    LogprobsContentDelta,
    LogprobsContentDone,
    LogprobsRefusalDelta,
    LogprobsRefusalDone,
    Prefix,
    RefusalDelta,
    RefusalDone,
)
from codec.events.partial_json import (
    MAX_NESTING,
    PartialJson,
    parse_partial_json,
    parse_payload,
)
from codec.events.stream import ChatEventStream, EventOrder

__all__ = (
    "MAX_NESTING",
    "ArgumentsDelta",
    "ArgumentsDone",
    "ChatEvent",
    "ChatEventStream",
    "ChunkEvent",
    "ContentDelta",
    "ContentDone",
    "ErrorEvent",
    "EventOrder",
    "LogprobsContentDelta",
    "LogprobsContentDone",
    "LogprobsRefusalDelta",
    "LogprobsRefusalDone",
    "PartialJson",
    "Prefix",
    "RefusalDelta",
    "RefusalDone",
    "parse_partial_json",
    "parse_payload",
)
