"""Makes a store of as many calls as are asked for, of recorded shapes.

``python -m tests.bench.big_store FILE --count 1000000``. A hundred recordings and more are played
into the service once; each call is a copy of one of their rows.

Rules:

1. A copy has ids and times of its own, in its columns and in the bytes of its span, which are as
   many as before. Session and user are in the columns alone.
2. A recording of twice the size is copied an eighth as often, so that a million calls take some 3.5
   GB. Those that failed are :data:`FAILED` of all, whatever their size. One call in
   :data:`LONG_EVERY` is a chat of :data:`LONG_MESSAGES` messages.
3. What is made depends on the arguments alone, and on the recordings.
4. Rows are recorded in the order of their beginnings, which are spread over :data:`DAYS`.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace
from opentelemetry.sdk.resources import Resource

from telemetry.conversation_position import ConversationForm, KeptCalls
from telemetry.pricing.price_table import Price, PriceTable
from telemetry.pricing.pricing import Pricing
from telemetry.service import TelemetryService
from telemetry.span_identity import SpanIdentity
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.store.store import Store
from tests.corpus import recordings
from tests.telemetry.tap_frames import ANSWER, START_NS, begin, exchange_frames

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from telemetry.store.rows import SpanRow
    from tests.corpus.recordings import Recording

__all__ = (
    "DAYS",
    "FAILED",
    "LONG_EVERY",
    "LONG_MESSAGES",
    "copy_rows",
    "play_recordings",
    "write_store",
)

DAYS: Final = 14

LONG_MESSAGES: Final = 200

LONG_EVERY: Final = 20_000

FAILED: Final = 0.03

BATCH_ROWS: Final = 4_000
"""Rows of a commit: most pages of the index of span ids are written for each."""

_CALLS_OF_SESSION: Final = 8

_USERS: Final = 300

_DAY_NS: Final = 86_400_000_000_000

_CHOSEN: Final = (
    (recordings.load_chats, "chat.completions", 50),
    (recordings.load_responses, "responses", 25),
    (recordings.load_messages, "messages", 25),
    (recordings.load_gemini, "gemini.generate", 10),
    (recordings.load_gemini_streams, "gemini.stream", 8),
    (recordings.load_ollama_chats, "ollama.chat", 6),
    (recordings.load_embeddings, "embeddings", 6),
    (recordings.load_completions, "completions", 5),
)
"""Who loads the recordings of an API, its name, and how many are played, evenly by size."""

_AGENTS: Final = (
    *("OpenAI/Python 2.8.0", "Anthropic/Python 0.72.0", "claude-cli/2.1.86 (external, cli)"),
    *("codex_cli_rs/0.64.0 (Debian 12; x86_64)", "opencode/1.0.3", "curl/8.14.1"),
    *("python-httpx/0.28.1", "OpenAI/JS 6.9.0"),
)

_PRICE: Final = Price(model="*", input=1.25, output=10)

_MODELS: Final = (
    *(("gpt-5", "openai"), ("gpt-5-mini", "openai"), ("claude-sonnet-4-5", "anthropic")),
    *(("claude-opus-4-5", "anthropic"), ("gemini-2.5-pro", "gemini"), ("llama-3.3-70b", "groq")),
    *(("gemini-2.5-flash", "gemini"), ("qwen3-32b", "local"), ("mistral-small", "default")),
    *(("text-embedding-3-small", "openai"), ("gpt-oss-120b", "groq"), ("gemma-3-27b", "local")),
)
"""The models that are called instead of the recorded ones, and by which upstream: as many as a
service has. A hundred of them would each have a row of its own in nearly every minute."""

_MODEL: Final = re.compile(rb'("model(?:Version)?"\s*:\s*")[^"]*"')

_PATH_MODEL: Final = re.compile(r"/models/[^/:]*:")


class _Keeping:
    """Stands where the store stands, and keeps the rows."""

    def __init__(self) -> None:
        self.rows: list[SpanRow] = []

    def last_conversation(self) -> int:
        return 0

    def read_kept_calls(self, **_: int) -> KeptCalls:
        return KeptCalls(key=b"k" * 32)

    def pop_deleted_runs(self) -> Collection[int]:
        return ()

    def add(self, rows: Sequence[SpanRow], _: Mapping[int, bytes | None]) -> int:
        self.rows += rows
        return len(rows)


@dataclass(frozen=True, slots=True)
class _Template:
    """A row to copy: its bytes in pieces, between which its ids and times go, and their order."""

    row: SpanRow
    pieces: tuple[bytes, ...]
    order: tuple[int, ...]

    @classmethod
    def cut(cls, row: SpanRow) -> _Template:
        """Cut the bytes of a row at its trace id, span id, start and end, as protobuf has them.

        Raises:
            ValueError: one of them is not there, or not alone.
        """
        fields = (
            (b"\x0a\x10", bytes.fromhex(row.trace_id)),
            (b"\x12\x08", bytes.fromhex(row.span_id)),
            (b"\x39", row.start_ns.to_bytes(8, "little")),
            (b"\x41", row.end_ns.to_bytes(8, "little")),
        )
        places = []
        for number, (tag, value) in enumerate(fields):
            if row.span.count(tag + value) != 1:
                raise ValueError(f"field {number} of the span {row.span_id} is not there once")
            start = row.span.index(tag + value) + len(tag)
            places.append((start, start + len(value), number))
        places.sort()
        starts = [start for start, _, _ in places]
        ends = [end for _, end, _ in places]
        pieces = [row.span[a:b] for a, b in zip([0, *ends], [*starts, None], strict=True)]
        return cls(row, tuple(pieces), tuple(number for _, _, number in places))

    def fill(self, values: Sequence[bytes]) -> bytes:
        """Put the pieces together around the trace id, the span id, the start and the end."""
        parts = [self.pieces[0]]
        for number, piece in zip(self.order, self.pieces[1:], strict=True):
            parts += (values[number], piece)
        return b"".join(parts)


def play_recordings(folder: Path) -> list[SpanRow]:
    """Play recordings into the service: a row of each, and last that of a long chat (rule 2)."""
    keeping = _Keeping()
    rules = SpanRules(
        pricing=Pricing(PriceTable((_PRICE,)), catalogue=False),
        conversations=ConversationForm.OFF,  # a copy goes on from nothing
    )
    resource = Resource.create({"service.name": "spantap"})
    recorder = SpanRecorder(resource, build_span_limits(), rules)
    service = TelemetryService(
        recorder,
        keeping,  # type: ignore[arg-type]
        rules=rules,
        now_ns=lambda: START_NS,
    )
    number = 0
    for load, api, wanted in _CHOSEN:
        found = sorted(load(folder), key=lambda one: len(one.body) + len(one.request))
        for one in found[:: max(1, len(found) // wanted)]:
            number += 1
            _play(service, number, one, api)
    _play(service, number + 1, _make_long_chat(), "chat.completions")
    service._commit_waiting()
    return keeping.rows


def _play(service: TelemetryService, number: int, recording: Recording, api: str) -> None:
    digest = blake2b(b"%d" % number, digest_size=24).hexdigest()
    model, upstream = _MODELS[number % len(_MODELS)]
    name_model = partial(_MODEL.sub, rb'\g<1>%b"' % model.encode())
    head = tuple((name.decode().lower(), value.decode()) for name, value in recording.head)
    _, *frames = exchange_frames(
        *_cut(name_model(recording.body)),
        number=number,
        asked=name_model(recording.request),
        status=recording.status,
        headers=head,
    )
    first = begin(
        number,
        identity=SpanIdentity(trace_id=digest[:32], span_id=digest[32:]),
        endpoint=api,
        path=_PATH_MODEL.sub(f"/models/{model}:", recording.target.decode().partition("?")[0]),
        upstream=upstream,
        headers=(("user-agent", _AGENTS[number % len(_AGENTS)]),),
    )
    for frame in (first, *frames):
        service.feed(frame)


def _cut(body: bytes) -> list[bytes]:
    """An answer as it comes: in a few reads."""
    size = max(1, -(-len(body) // 4))
    return [body[at : at + size] for at in range(0, len(body), size)]


def _make_long_chat() -> Recording:
    words = ("the", "store", "keeps", "every", "span", "until", "it", "has", "gone", "out,")
    dice = random.Random(LONG_MESSAGES)
    roles = ("user", "assistant")
    messages = [
        {"role": roles[number % 2], "content": " ".join(dice.choices(words, k=80))}
        for number in range(LONG_MESSAGES - 1)
    ]
    asked = {"model": "gpt-5", "messages": [{"role": "system", "content": "Be brief."}, *messages]}
    return recordings.Recording(
        id="long",
        target=b"/v1/chat/completions",
        request=msgspec.json.encode(asked),
        head=((b"content-type", b"application/json"),),
        body=ANSWER.replace(b"m-1-2026", b"gpt-5"),
    )


def copy_rows(base: Sequence[SpanRow], count: int, *, end_ns: int, seed: int) -> Iterator[SpanRow]:
    """Yield `count` copies of rows (rules 1 to 4), the last of which begins at `end_ns`.

    The very last is one of the long chat, which is the last row of `base`.
    """
    dice = random.Random(seed)
    templates = [_Template.cut(row) for row in base]
    *usual, long = templates
    weights = _weigh([one.row for one in usual])
    step_ns = DAYS * _DAY_NS // count
    chosen: list[_Template] = []
    for number in range(count):
        if not chosen:
            chosen = dice.choices(usual, weights, k=BATCH_ROWS)
        template = chosen.pop()
        if (count - 1 - number) % LONG_EVERY == 0:
            template = long
        ids = dice.randbytes(24)
        start_ns = end_ns - (count - 1 - number) * step_ns
        yield _copy(template, number, ids, start_ns, pace=dice.lognormvariate(0.6, 0.9))


def _weigh(rows: Sequence[SpanRow]) -> list[float]:
    """How often each row is copied (rule 2)."""
    weights = [len(row.span) ** -3.0 for row in rows]
    failed = [row.status == "ERROR" for row in rows]
    of_failed = sum(weight for weight, it in zip(weights, failed, strict=True) if it)
    of_others = sum(weights) - of_failed
    return [
        weight * (FAILED / of_failed if it else (1 - FAILED) / of_others)
        for weight, it in zip(weights, failed, strict=True)
    ]


def _copy(template: _Template, number: int, ids: bytes, start_ns: int, *, pace: float) -> SpanRow:
    """Make a copy that took `pace` times as long as its recording."""
    row = template.row
    trace, span = ids[:16], ids[16:]
    end_ns = start_ns + int((row.end_ns - row.start_ns) * pace)
    ttft_ns = row.columns.ttft_ns
    session = number // _CALLS_OF_SESSION
    times = (start_ns.to_bytes(8, "little"), end_ns.to_bytes(8, "little"))
    return replace(
        row,
        span_id=span.hex(),
        trace_id=trace.hex(),
        start_ns=start_ns,
        end_ns=end_ns,
        recorded_ns=end_ns,
        columns=replace(
            row.columns,
            ttft_ns=None if ttft_ns is None else int(ttft_ns * pace),
            session=f"session-{session:06d}",
            user=f"user-{session * 7 % _USERS:03d}",
        ),
        span=template.fill((trace, span, *times)),
    )


def write_store(
    path: Path, count: int, *, folder: Path, end_ns: int | None = None, seed: int = 1
) -> None:
    """Make the store at `path`, of `count` calls that end at `end_ns`, by default now.

    Raises:
        StoreError: it cannot be made.
    """
    rows = copy_rows(play_recordings(folder), count, end_ns=end_ns or time.time_ns(), seed=seed)
    with Store.open(path, delivers=False) as store:
        while batch := [*islice(rows, BATCH_ROWS)]:
            store.add(batch)


def main() -> None:
    """Make one, and tell what became of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.big_store", description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--count", type=int, default=1_000_000)
    options = parser.parse_args()
    if recordings.FOLDER is None:
        parser.error(recordings.explain_absence())
    if options.store.exists():
        parser.error(f"{options.store} is there already")
    begun = time.monotonic()
    write_store(options.store, options.count, folder=recordings.FOLDER)
    size_bytes, seconds = options.store.stat().st_size, time.monotonic() - begun
    print(f"{options.count:,} calls, {size_bytes / 1e9:.2f} GB, in {seconds:.0f} s")


if __name__ == "__main__":
    main()
