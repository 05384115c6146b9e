"""The reporter: tells watchers which calls are open, how they grow, and how they end.

Nothing is reported that the span would hide: of an open call only what
:func:`telemetry.spans.open_calls.tell_open` returns, counts, and in the end its row. Texts are
reported only if nothing at all is hidden, of all calls or of this one, and without credentials
(:mod:`telemetry.news.texts`).

Everything runs on the thread that feeds the service: what it looks at does not change meanwhile,
and no frame is parsed for it. Each look has limits, however many calls are open: what remains waits
for the next looks. Every call that was reported as open is reported once as ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telemetry.news.messages import (
    MAX_HELLO_CALLS,
    Ended,
    EndedCall,
    Hello,
    Numbers,
    Opened,
    Progress,
    ProxyPlace,
    Recorded,
    Said,
    encode_line,
)
from telemetry.news.texts import TextCount
from telemetry.spans.open_calls import tell_open

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from codec.asked import Asked
    from telemetry.news.feed import Feed
    from telemetry.news.messages import News
    from telemetry.observing.observation import Observation
    from telemetry.observing.open_call import OpenCall
    from telemetry.observing.source import FrameSource
    from telemetry.privacy.credentials import Credentials
    from telemetry.spans.rules import SpanRules
    from telemetry.store.rows import SpanRow

LOOK_SECONDS: Final = 0.08
"""The least time between two looks, at most one for each commit: ten a second, so that a text seems
to flow."""

PROGRESS_LOOKS: Final = 5
"""Looks from one progress of a call to the next: twice a second."""

MAX_OPENED: Final = 32
"""Calls that one look reports as open: a millisecond or two."""

MAX_ROWS: Final = 16
"""Rows between two looks of calls that were never reported as open: some 150 a second. Nobody reads
hundreds, and with thousands most of a core would go into sending each of them to every browser. The
others are in the store once :class:`telemetry.news.messages.Recorded` is sent."""

MAX_PROGRESS: Final = 2
"""Calls whose progress one look reports. If more than ten are open, each one is reported less
often; with forty, every two seconds. A report costs as much as some chunks do, and a call has
thirty chunks in a second."""

MAX_LOOKED_AT: Final = 16
"""Calls that one look checks for progress: most have none."""

MAX_CONVERSATIONS: Final = 32
"""Conversations of one commit that are named; if there are more, any may have changed."""

MISSING_LOOKS: Final = 20
"""Looks after which a call that has disappeared is reported as ended: its end may wait for a second
(:mod:`telemetry.observing.call_ordering`), or its worker or the spool sends its frames again."""


class _ReportedCall:
    """A call, and what was reported of it.

    Attributes:
        call: as it was reported; ``None`` if it is new, or must not be reported.
        is_new: it was seen for the first time: most calls have ended by the next look.
        request: the request that was reported. It may come late, and another one may replace it.
        due: the look at which its progress is reported next.
        seen: the last look at which it was there.
    """

    __slots__ = (
        *("call", "count", "credentials", "due", "is_new", "observation"),
        *("progress", "request", "seen"),
    )

    def __init__(self, observation: Observation, look: int) -> None:
        self.observation = observation
        self.call: OpenCall | None = None
        self.is_new = True
        self.request: Asked | None = None
        self.count = TextCount()
        self.progress: Progress | None = None
        self.credentials: Credentials | None = None
        self.due = self.seen = look


class Reporter:
    """Tells all watchers what happens. Not safe for concurrent calls.

    Args:
        sources: returns the present sources of calls.
        rules: what the settings hide.
        last_seq: returns the greatest number of a span.
        begin: is called with this reporter when the first feed joins, and with ``None`` when the
            last one leaves: nothing is reported while nobody watches.

    Attributes:
        deliver: is called when there is something in the feeds.
        numbers: of the whole proxy, as last counted; any thread may set them.
        proxy: where clients reach the proxy.
    """

    def __init__(
        self,
        sources: Callable[[], Iterable[FrameSource]],
        rules: SpanRules,
        last_seq: Callable[[], int],
        begin: Callable[[Reporter | None], None],
    ) -> None:
        self._sources = sources
        self._rules = rules
        self._last_seq = last_seq
        self._begin = begin
        self.deliver: Callable[[], None] = lambda: None
        self._shows_text = not rules.hides_content
        self._feeds: list[Feed] = []
        self._reported: dict[str, _ReportedCall] = {}  # by span id
        self._looks = 0
        self._rows = 0  # since the last look, see MAX_ROWS
        self.numbers = self._reported_numbers = Numbers()
        self.proxy = ProxyPlace()

    def join(self, feed: Feed) -> None:
        """Begin to tell a watcher what happens; the first line says what there is."""
        self.look()
        for new in [one for one in self._reported.values() if one.is_new][-MAX_HELLO_CALLS:]:
            self._open(new)
        reported = [one for one in self._reported.values() if one.call is not None][
            -MAX_HELLO_CALLS:
        ]
        opened = [self._describe(one) for one in reported]
        hello = Hello(
            seq=self._last_seq(),
            live_text=self._shows_text,
            numbers=self.numbers,
            proxy=self.proxy,
            open=tuple([one for one in opened if one is not None]),
        )
        feed.put(encode_line(hello))
        self._feeds.append(feed)
        self._begin(self)
        self.deliver()

    def leave(self, feed: Feed) -> None:
        """Tell a watcher nothing more; a second call does nothing."""
        if feed in self._feeds:
            self._feeds.remove(feed)
        if not self._feeds:
            self._begin(None)
            self._reported.clear()

    def look(self) -> None:
        """Report what is new about open calls."""
        self._looks += 1
        self._rows = 0
        opened = current = 0
        due: list[_ReportedCall] = []
        for source in self._sources():
            for observation in source.observations():
                current += 1
                reported = self._reported.get(observation.span_id)
                if reported is None:
                    self._reported[observation.span_id] = _ReportedCall(observation, self._looks)
                    continue
                reported.seen = self._looks
                if reported.is_new:
                    if opened < MAX_OPENED:
                        opened += self._open(reported)
                    continue
                if reported.observation is not observation:  # its frames came again
                    reported.observation, reported.count = observation, TextCount()
                if reported.due <= self._looks and reported.call is not None:
                    due.append(reported)
        if due:
            self._tell_due(due)
        if current != len(self._reported):
            self._forget_missing()
        if self._shows_text:
            for feed in self._feeds:
                feed.follow()
                for span_id in feed.readers:
                    if (reported := self._reported.get(span_id)) is not None:
                        self._tell_texts(feed, reported)
        if self.numbers != self._reported_numbers:
            self._reported_numbers = self.numbers
            self._tell(self._reported_numbers)
        self.send()

    def send(self) -> None:
        """Deliver what waits in the feeds: once for everything that a commit reports."""
        if any(feed.size_bytes for feed in self._feeds):
            self.deliver()

    def note_end(self, observation: Observation) -> None:
        """Tell the rest of the texts of a call that ends."""
        reported = self._reported.get(observation.span_id)
        if reported is not None and reported.observation is observation and self._shows_text:
            for feed in self._feeds:
                if observation.span_id in feed.readers:
                    self._tell_texts(feed, reported)

    def end(self, span_id: str, row: SpanRow | None) -> None:
        """Tell that a call is no longer open, with its row if it has one."""
        reported = self._reported.pop(span_id, None)
        is_known = reported is not None and reported.call is not None
        if row is not None and (is_known or self._rows < MAX_ROWS):
            self._rows += not is_known
            self._tell(Ended(span_id=span_id, call=_describe_row(row)))
        elif is_known:
            self._tell(Ended(span_id=span_id, call=None))

    def commit(self, rows: Sequence[SpanRow]) -> None:
        """Tell that these rows were committed; :meth:`send` delivers that."""
        changed = {row.columns.conversation for row in rows}
        numbers = sorted(number for number in changed if number is not None)
        named = tuple(numbers) if len(numbers) <= MAX_CONVERSATIONS else None
        self._tell(Recorded(seq=self._last_seq(), conversations=named))

    def _tell(self, message: News) -> None:
        line = encode_line(message)
        for feed in self._feeds:
            feed.put(line)

    def _open(self, reported: _ReportedCall) -> bool:
        """Report a call that has begun; return whether it may be reported."""
        exchange = reported.observation.look()
        reported.call = call = tell_open(exchange, self._rules)
        reported.request = exchange.request
        reported.due = self._looks + PROGRESS_LOOKS
        reported.is_new = False
        if call is not None and self._feeds:
            self._tell(Opened(call=call, chars=_count(reported), first_ns=exchange.first_ns))
        return call is not None

    def _describe(self, reported: _ReportedCall) -> Opened | None:
        """Describe a call as it is now."""
        if reported.call is None:
            return None
        exchange = reported.observation.look()
        call = tell_open(exchange, self._rules, reported.call)
        if call is None:
            return None
        return Opened(call=call, chars=_count(reported), first_ns=exchange.first_ns)

    def _tell_due(self, due: list[_ReportedCall]) -> None:
        """Report the progress of some calls, first of those that have waited longest."""
        due.sort(key=_find_due)
        reported_count = 0
        for reported in due[:MAX_LOOKED_AT]:
            if reported_count == MAX_PROGRESS:
                break
            reported.due = self._looks + PROGRESS_LOOKS
            reported_count += self._tell_progress(reported)

    def _tell_progress(self, reported: _ReportedCall) -> bool:
        """Report the progress of a call, if there is any; return whether there is."""
        exchange = reported.observation.look()
        call = reported.call
        if call is None:
            return False
        if reported.request is not exchange.request:
            reported.request = exchange.request
            reported.call = call = tell_open(exchange, self._rules) or call
        known = reported.progress
        if (
            known is not None
            and known.chunks == exchange.reads
            and known.http_status == exchange.status
            and known.model == call.model
        ):
            return False
        reported.progress = progress = Progress(
            span_id=call.span_id,
            model=call.model,
            http_status=exchange.status,
            chunks=exchange.reads,
            chars=_count(reported),
            first_ns=exchange.first_ns,
            what=call.what,
        )
        self._tell(progress)
        return True

    def _tell_texts(self, feed: Feed, reported: _ReportedCall) -> None:
        """Tell one watcher what is new in the texts of a call, if they may be shown."""
        observation, call = reported.observation, reported.call
        reader = feed.readers[observation.span_id]
        if call is None or reader.is_withheld:
            return
        texts = observation.look_at_texts()
        if not texts or observation.hides_content:
            return
        if reported.credentials is None:
            reported.credentials = observation.find_credentials()
        if reported.credentials is not None:
            for kind, part, name, at, text in reader.read(texts, reported.credentials):
                said = Said(span_id=call.span_id, kind=kind, part=part, name=name, at=at, text=text)
                feed.put(encode_line(said))

    def _forget_missing(self) -> None:
        """Report the end of calls that have disappeared without one."""
        last = self._looks - MISSING_LOOKS
        for span_id in [key for key, reported in self._reported.items() if reported.seen < last]:
            self.end(span_id, None)


def _find_due(reported: _ReportedCall) -> int:
    return reported.due


def _count(reported: _ReportedCall) -> int | None:
    texts = reported.observation.look_at_texts()
    return None if texts is None else reported.count.count(texts)


def _describe_row(row: SpanRow) -> EndedCall:
    return EndedCall(
        span_id=row.span_id,
        trace_id=row.trace_id,
        name=row.name,
        start_ns=row.start_ns,
        end_ns=row.end_ns,
        model=row.model,
        status=row.status,
        outcome=row.outcome,
        prompt_tokens=row.prompt_tokens,
        completion_tokens=row.completion_tokens,
        total_tokens=row.total_tokens,
        launch=row.launch,
        recorded_ns=row.recorded_ns,
        size_bytes=len(row.span),
        columns=row.columns,
    )
