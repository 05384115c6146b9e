"""The reporter: tells watchers which calls are open, how they grow, and what they came to.

Rules:

1. It is asked nothing while nobody watches: the service knows a reporter only as long as there are
   feeds (:meth:`Reporter.join`).
2. All of it runs on the thread that feeds the service: what it looks at does not change meanwhile,
   and no frame is parsed for it.
3. What a look does is bounded, however many calls are open: the rest waits for the next looks.
4. Nothing is told that the span would hide: of a call what :func:`telemetry.spans.open_calls` tells
   of it, its row, and counts. Texts are told only where nothing at all is hidden, of all calls or
   of this one; what its credentials are, :mod:`telemetry.news.texts` takes care of.
5. Each call that was told to be open is told to have ended, once, with its row if it has one.
6. Nobody reads hundreds of rows a second. Of calls that nobody was told of, so many rows are told
   between two looks; the others are in the store once :class:`telemetry.news.messages.Recorded`
   is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telemetry.news.messages import (
    MAX_HELLO_CALLS,
    Dropped,
    Ended,
    EndedCall,
    Hello,
    Opened,
    Progress,
    Recorded,
    Said,
    encode_line,
)
from telemetry.news.texts import TextCount
from telemetry.spans.open_calls import tell_open

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from telemetry.news.feed import Feed
    from telemetry.news.messages import News
    from telemetry.observing.observation import Observation
    from telemetry.observing.open_call import OpenCall
    from telemetry.observing.source import FrameSource
    from telemetry.privacy.credentials import Credentials
    from telemetry.spans.rules import SpanRules
    from telemetry.store.rows import SpanRow

LOOK_SECONDS: Final = 0.08
"""The least time between two looks, of which each commit may do one: ten a second, so that who
reads along sees no steps."""

PROGRESS_LOOKS: Final = 5
"""Looks between two words on the progress of a call: twice a second."""

MAX_OPENED: Final = 32
"""Calls of which one look tells that they are open: a millisecond or two."""

MAX_ROWS: Final = 16
"""Rows of calls that nobody was told of, between two looks (rule 6): some 150 a second. With
thousands, most of a core would go into telling each of them to every browser."""

MAX_PROGRESS: Final = 2
"""Calls of which one look tells the progress: with more than ten each has its turn less often, with
forty every two seconds. Each costs as much as some chunks do, and a call has thirty of these in a
second."""

MAX_LOOKED_AT: Final = 16
"""Calls of which one look finds out whether they are further: most have to be waited for."""

MAX_CONVERSATIONS: Final = 32
"""Conversations of one commit that are named; of more, any may have changed."""

MISSING_LOOKS: Final = 20
"""Looks for which a call may be gone without a word: its end may be held back for a second
(:mod:`telemetry.observing.call_ordering`), or its frames come again from its worker or the spool.
"""


class _Told:
    """A call, and what was told of it.

    Attributes:
        call: as it was told; ``None`` of one that was not, for it is new, or not to be told of.
        is_new: it was seen for the first time: most calls have ended by the next look.
        due: the look at which its progress is told.
        seen: the last look at which it was there.
    """

    __slots__ = ("call", "count", "credentials", "due", "is_new", "observation", "progress", "seen")

    def __init__(self, observation: Observation, look: int) -> None:
        self.observation = observation
        self.call: OpenCall | None = None
        self.is_new = True
        self.count = TextCount()
        self.progress: Progress | None = None
        self.credentials: Credentials | None = None
        self.due = self.seen = look


class Reporter:
    """Tells all watchers what happens. Not safe for concurrent calls (rule 2).

    Args:
        sources: the sources of calls, at any time.
        rules: what the settings hide.
        last_seq: tells the greatest number that a span was given.
        begin: is given this reporter when the first feed has come, and ``None`` when the last one
            has gone (rule 1).

    Attributes:
        deliver: called once there is something in the feeds.
        dropped: spans that were given up or lost, as last counted; any thread may set it.
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
        self._told: dict[str, _Told] = {}  # by span id
        self._looks = 0
        self._rows = 0  # that were told since the last look, of rule 6
        self.dropped = self._told_dropped = 0

    def join(self, feed: Feed) -> None:
        """Begin to tell a watcher what happens; first what there is."""
        self.look()
        for new in [one for one in self._told.values() if one.is_new][-MAX_HELLO_CALLS:]:
            self._open(new)
        told = [one for one in self._told.values() if one.call is not None][-MAX_HELLO_CALLS:]
        opened = [self._describe(one) for one in told]
        hello = Hello(
            seq=self._last_seq(),
            live_text=self._shows_text,
            dropped=self.dropped,
            open=tuple([one for one in opened if one is not None]),
        )
        feed.put(encode_line(hello))
        self._feeds.append(feed)
        self._begin(self)
        self.deliver()

    def leave(self, feed: Feed) -> None:
        """Tell a watcher nothing more; done twice, it does nothing."""
        if feed in self._feeds:
            self._feeds.remove(feed)
        if not self._feeds:
            self._begin(None)
            self._told.clear()

    def look(self) -> None:
        """Tell what is new of open calls."""
        self._looks += 1
        self._rows = 0
        opened = current = 0
        due: list[_Told] = []
        for source in self._sources():
            for observation in source.observations():
                current += 1
                told = self._told.get(observation.span_id)
                if told is None:
                    self._told[observation.span_id] = _Told(observation, self._looks)
                    continue
                told.seen = self._looks
                if told.is_new:
                    if opened < MAX_OPENED:
                        opened += self._open(told)
                    continue
                if told.observation is not observation:  # its frames came again
                    told.observation, told.count = observation, TextCount()
                if told.due <= self._looks and told.call is not None:
                    due.append(told)
        if due:
            self._tell_due(due)
        if current != len(self._told):
            self._forget_missing()
        if self._shows_text:
            for feed in self._feeds:
                feed.follow()
                for span_id in feed.readers:
                    if (told := self._told.get(span_id)) is not None:
                        self._tell_texts(feed, told)
        if self.dropped != self._told_dropped:
            self._told_dropped = self.dropped
            self._tell(Dropped(count=self._told_dropped))
        self.send()

    def send(self) -> None:
        """Let what waits in the feeds be delivered: once for all that a commit tells."""
        if any(feed.size_bytes for feed in self._feeds):
            self.deliver()

    def note_end(self, observation: Observation) -> None:
        """Tell the rest of the texts of a call that ends."""
        told = self._told.get(observation.span_id)
        if told is not None and told.observation is observation and self._shows_text:
            for feed in self._feeds:
                if observation.span_id in feed.readers:
                    self._tell_texts(feed, told)

    def end(self, span_id: str, row: SpanRow | None) -> None:
        """Tell what a call has come to, and that it is no longer open (rules 5 and 6)."""
        told = self._told.pop(span_id, None)
        is_known = told is not None and told.call is not None
        if row is not None and (is_known or self._rows < MAX_ROWS):
            self._rows += not is_known
            self._tell(Ended(span_id=span_id, call=_describe_row(row)))
        elif is_known:
            self._tell(Ended(span_id=span_id, call=None))

    def commit(self, rows: Sequence[SpanRow]) -> None:
        """Tell that these rows were committed, with what is sent next."""
        changed = {row.columns.conversation for row in rows}
        numbers = sorted(number for number in changed if number is not None)
        named = tuple(numbers) if len(numbers) <= MAX_CONVERSATIONS else None
        self._tell(Recorded(seq=self._last_seq(), conversations=named))

    def _tell(self, message: News) -> None:
        line = encode_line(message)
        for feed in self._feeds:
            feed.put(line)

    def _open(self, told: _Told) -> bool:
        """Tell of a call that has begun; returns whether it is told of."""
        exchange = told.observation.look()
        told.call = call = tell_open(exchange, self._rules)
        told.due = self._looks + PROGRESS_LOOKS
        told.is_new = False
        if call is not None and self._feeds:
            self._tell(Opened(call=call, chars=_count(told), first_ns=exchange.first_ns))
        return call is not None

    def _describe(self, told: _Told) -> Opened | None:
        """Describe a call as it is now."""
        if told.call is None:
            return None
        exchange = told.observation.look()
        call = tell_open(exchange, self._rules)
        if call is None:
            return None
        return Opened(call=call, chars=_count(told), first_ns=exchange.first_ns)

    def _tell_due(self, due: list[_Told]) -> None:
        """Tell how far those calls are whose turn it is for longest, some at a time (rule 3)."""
        due.sort(key=_find_due)
        told_count = 0
        for told in due[:MAX_LOOKED_AT]:
            if told_count == MAX_PROGRESS:
                break
            told.due = self._looks + PROGRESS_LOOKS
            told_count += self._tell_progress(told)

    def _tell_progress(self, told: _Told) -> bool:
        """Tell how far a call is, if it is further; returns whether it is."""
        exchange = told.observation.look()
        call = told.call
        if call is None:
            return False
        if call.model is None and exchange.model is not None:
            told.call = call = tell_open(exchange, self._rules) or call
        known = told.progress
        if (
            known is not None
            and known.chunks == exchange.reads
            and known.http_status == exchange.status
            and known.model == call.model
        ):
            return False
        told.progress = progress = Progress(
            span_id=call.span_id,
            model=call.model,
            http_status=exchange.status,
            chunks=exchange.reads,
            chars=_count(told),
            first_ns=exchange.first_ns,
        )
        self._tell(progress)
        return True

    def _tell_texts(self, feed: Feed, told: _Told) -> None:
        """Tell one watcher what is new in the texts of a call, where they may be shown (rule 4)."""
        observation, call = told.observation, told.call
        reader = feed.readers[observation.span_id]
        if call is None or reader.is_withheld:
            return
        texts = observation.look_at_texts()
        if not texts or observation.hides_content:
            return
        if told.credentials is None:
            told.credentials = observation.find_credentials()
        if told.credentials is not None:
            for kind, part, name, at, text in reader.read(texts, told.credentials):
                said = Said(span_id=call.span_id, kind=kind, part=part, name=name, at=at, text=text)
                feed.put(encode_line(said))

    def _forget_missing(self) -> None:
        """Tell the end of calls that are gone for long, without a word (rule 5)."""
        last = self._looks - MISSING_LOOKS
        for span_id in [key for key, told in self._told.items() if told.seen < last]:
            self.end(span_id, None)


def _find_due(told: _Told) -> int:
    return told.due


def _count(told: _Told) -> int | None:
    texts = told.observation.look_at_texts()
    return None if texts is None else told.count.count(texts)


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
