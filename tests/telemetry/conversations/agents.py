"""Agents for tests: calls at times of one's choice, recorded by a service in a real store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from opentelemetry.sdk.resources import Resource

from codec.text.jsontext import decode_json_object
from telemetry.frames.frame import RequestBody, ResponseData, ResponseHead
from telemetry.observing.encryption import OWN_CIPHER
from telemetry.reading.stored_calls import open_calls
from telemetry.service import TelemetryService
from telemetry.spans.otlp.decoding import decode_spans
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.store.store import Store
from tests.telemetry.conversations.talks import answer, calls, result, user
from tests.telemetry.tap_frames import START_NS, begin, end
from tests.telemetry.tap_frames import identity as make_identity

if TYPE_CHECKING:
    from pathlib import Path

    from telemetry.facts import CallColumns
    from telemetry.frames.ending import EndKind
    from telemetry.span_identity import SpanIdentity
    from telemetry.spans.otlp.decoding import DecodedSpan

__all__ = ("SECOND_NS", "TWO", "TWO_RESULTS", "Agents", "Seen", "by_kind", "look")

SECOND_NS = 1_000_000_000
MAX_SEEN = 10_000

TWO = calls("call_a", "call_b")
TWO_RESULTS = (result("call_a", "one"), result("call_b", "two"))


class Seen(NamedTuple):
    """A recorded span, with the columns of its row."""

    span: DecodedSpan
    columns: CallColumns

    @property
    def metadata(self) -> dict[str, Any]:
        """The members of its metadata."""
        return dict(decode_json_object(self.span.attributes["metadata"]))


class Agents:
    """A service in a store, and the calls that it is fed; use it as a context manager.

    Attributes:
        now_ns: what its clock says: the end of the last call, until it is changed.
        step_ns: how far the machine's clock was put ahead of it, that of workers, too.
    """

    def __init__(self, path: Path, rules: SpanRules | None = None) -> None:
        self._path = path
        self._rules = rules or SpanRules()
        self._number = 0
        self.now_ns = START_NS
        self.step_ns = 0

    def __enter__(self) -> Self:
        self._store = Store.open(self._path, delivers=False)
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._store.close()

    def start(self) -> None:
        """Begin with a new service, as after a restart or a kill."""
        recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), self._rules)
        self.service = TelemetryService(
            recorder,
            self._store,
            rules=self._rules,
            now_ns=lambda: self.now_ns + self.step_ns,
            steady_ns=lambda: self.now_ns,
        )

    def call(
        self,
        *messages: dict[str, Any],
        said: dict[str, Any] | None,
        at: float | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        kind: EndKind | None = None,
        parent: str | None = None,
        sampled: bool = True,
        key: str = "",
        **body: Any,
    ) -> str:
        """Feed a call of one second, and commit; return the id of its span.

        Args:
            messages: of the request.
            said: the answer's message; ``None`` for a 500.
            at: seconds from the beginning; a second after the last call's end by default.
            headers: of the request.
            kind: how it breaks off, in the midst of the answer.
            key: the caller's, in the ``authorization``.
            parent: the caller's span, as a ``traceparent`` names it.
            sampled: the sampler takes it.
            body: further members.
        """
        asked = {"model": "m-1", "messages": messages, **body}
        told = (
            {"error": {"message": "down"}}
            if said is None
            else {
                "id": f"a-{self._number + 1}",
                "choices": [{"index": 0, "message": said, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
            }
        )
        return self.exchange(
            "chat.completions",
            "/v1/chat/completions",
            asked,
            told,
            status=500 if said is None else 200,
            at=at,
            headers=headers,
            kind=kind,
            key=key,
            identity=make_identity(
                self._number + 1, parent_span_id=parent, trace_flags=int(sampled)
            ),
        )

    def exchange(
        self,
        endpoint: str,
        path: str,
        asked: dict[str, Any],
        told: dict[str, Any],
        *,
        status: int = 200,
        at: float | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        kind: EndKind | None = None,
        key: str = "",
        identity: SpanIdentity | None = None,
    ) -> str:
        """Feed a call of any API, and commit; return the id of its span."""
        self._number += 1
        number, request, answer = (
            self._number,
            json.dumps(asked).encode(),
            json.dumps(told).encode(),
        )
        at_ns = self.now_ns + SECOND_NS if at is None else START_NS + int(at * SECOND_NS)
        at_ns += self.step_ns
        end_ns = at_ns + SECOND_NS
        self.now_ns = max(self.now_ns, end_ns - self.step_ns)
        span = make_identity(number) if identity is None else identity
        encrypted = OWN_CIPHER.encrypt(f"authorization: Bearer {key}".encode()) if key else b""
        if kind is not None:
            answer = answer[: len(answer) // 2]
        for frame in (
            begin(
                number,
                at_ns=at_ns,
                endpoint=endpoint,
                path=path,
                identity=span,
                headers=headers,
                encrypted=encrypted,
            ),
            RequestBody(exchange=number, data=request, size_bytes=len(request)),
            ResponseHead(exchange=number, at_ns=at_ns + 1, status=status, headers=()),
            ResponseData(number, end_ns, answer),
            end(number, at_ns=end_ns, **({} if kind is None else {"kind": kind})),
        ):
            self.service.feed(frame)
        self.service.commit()
        return span.span_id

    def delete_all(self) -> None:
        """Delete all spans, as ``spantap store delete`` does beside a proxy that runs."""
        self._store.delete(range(1, MAX_SEEN))
        self.service.commit()

    def see(self) -> list[Seen]:
        """All spans that are recorded, in their order."""
        with open_calls(self._path).all_rows() as reader:
            stored = [*reader.newest(MAX_SEEN)]
        return [Seen(decode_spans(one.span)[0], one.summary.columns) for one in stored]

    def see_kind(self, kind: str) -> list[Seen]:
        """Those of a kind."""
        return [one for one in self.see() if one.columns.kind == kind]


def look(agents: Agents, said: dict[str, Any] | None = None) -> tuple[str, str]:
    """A run of two calls, with two tools at once; the ids of the calls."""
    first = agents.call(user("Look"), said=TWO)
    second = agents.call(user("Look"), TWO, *TWO_RESULTS, said=said or answer("Both are there"))
    return first, second


def by_kind(seen: list[Seen]) -> dict[str, int]:
    """How many there are of each kind."""
    kinds = [str(one.columns.kind) for one in seen]
    return {kind: kinds.count(kind) for kind in kinds}
