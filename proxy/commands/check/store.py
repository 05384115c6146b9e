"""Checks the store: can ``spantap serve`` own it, what is in it, and has it room to grow?

Nothing is made or changed.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

from proxy.commands.check.findings import bad, good, note
from proxy.commands.unobserved import describe_unobserved
from telemetry.errors import StoreError
from telemetry.store.description import find_set_aside
from telemetry.store.lock import find_holder
from telemetry.store.opening import wal_path
from telemetry.store.survey import survey_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from proxy.commands.check.findings import Finding
    from proxy.settings.settings import Settings
    from telemetry.store.survey import StoreSurvey
    from telemetry.store.unobserved_calls import UnobservedCalls

_ANOTHER = "name another store with --store or SPANTAP_STORE"

_MIB = 1024 * 1024

_LEAST_ROOM_BYTES = 16 * _MIB
"""A disk with less counts as full: this is some thousand spans and the write-ahead log."""

_LONG_WAIT_SECONDS = 60.0
"""A healthy backend accepts a span within seconds."""


def check_store(settings: Settings, *, sends: bool) -> Iterator[Finding]:
    """Check that the store can be owned, is sound, and has room; `sends` if there is a backend."""
    path = settings.store
    if (obstacle := _find_obstacle(path)) is not None:
        yield bad("store", f"{path} cannot be written: {obstacle}", f"fix that, or {_ANOTHER}")
        return
    size_bytes = _size_bytes(path)
    try:
        holder = find_holder(path)
        if size_bytes == 0 and holder is not None:
            yield bad(
                "store",
                f"{path} is gone, and process {holder} has it open",
                "read the log of that process: it begins a new file, or says what is in the way",
            )
        elif size_bytes == 0:
            yield good("store", f"{path} will be created by `spantap serve`")
        else:
            survey = survey_store(path, is_in_use=holder is not None)
            yield from _judge_file(path, survey, holder)
            # A running spantap may have another environment, with a backend.
            yield from _judge_spans(survey, sends=sends or holder is not None)
            yield from _judge_unobserved(survey.unobserved)
    except StoreError as error:
        yield bad("store", str(error), f"follow that, or {_ANOTHER}")
        return
    yield from _judge_past_damage(path)
    yield _judge_room(settings, size_bytes + _size_bytes(wal_path(path)))


def _find_obstacle(path: Path) -> str | None:
    """Find what prevents writing the file, or making its folder."""
    folder = _existing_folder(path)
    if not folder.is_dir():
        return f"{folder} is not a folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"the folder {folder} is read-only, or this user may not write in it"
    if path.exists() and not (path.is_file() and os.access(path, os.W_OK)):
        return "it is read-only, or this user may not write it"
    if path.exists() and path.stat().st_nlink > 1:
        return "it has further names (hard links), by which others might write to it"
    return None


def _existing_folder(path: Path) -> Path:
    folder = path.parent.absolute()
    while not os.path.exists(folder):  # noqa: PTH110 - Path.exists raises below a closed folder
        folder = folder.parent
    return folder


def _judge_file(path: Path, survey: StoreSurvey, holder: str | None) -> Iterator[Finding]:
    if survey.damage:
        yield bad(
            "store",
            f"{path} is damaged: {survey.damage}",
            "save what is in it by `sqlite3 FILE .recover`; a `spantap serve` that meets damage "
            "moves the file aside, saves what it can, and begins a new one",
        )
    elif holder is not None:
        yield good("store", f"{path} is in use by process {holder}, as it is while spantap runs")
    else:
        extent = "" if survey.is_checked else " as far as there was time to look"
        yield good("store", f"{path} is sound{extent}, and free")


def _judge_spans(survey: StoreSurvey, *, sends: bool) -> Iterator[Finding]:
    waited_seconds = 0.0
    if survey.oldest_pending_ns is not None:
        waited_seconds = max(0.0, (time.time_ns() - survey.oldest_pending_ns) / 1e9)
    waiting = f"{_count(survey.pending)} to be sent, the oldest for {_duration(waited_seconds)}"
    if survey.pending and not sends:
        yield note("spans", f"{waiting}, and there is no backend", "set an OTLP endpoint")
    elif waited_seconds > _LONG_WAIT_SECONDS:
        reason = f"; last error: {survey.pending_error}" if survey.pending_error else ""
        mend = "they are sent once a spantap runs and the backend accepts them, see below"
        yield note("spans", f"{waiting}{reason}", mend)
    elif survey.pending:
        yield good("spans", waiting)
    if survey.rejected:
        yield note(
            "spans",
            f"{_count(survey.rejected)} set aside because the backend refused them, or for damage; "
            f"the last with: {survey.rejected_error or 'no words'}",
            "see `spantap traces`; let the backend accept them, or lower SPANTAP_MAX_SPAN_BYTES",
        )


def _judge_unobserved(unobserved: Sequence[UnobservedCalls]) -> Iterator[Finding]:
    if unobserved:
        mend = "let the client use one of these, or look for those calls at the provider"
        yield note("calls", describe_unobserved(unobserved), mend)


def _judge_past_damage(path: Path) -> Iterator[Finding]:
    """Report stores that were damaged and moved aside."""
    if found := find_set_aside(path):
        yield note(
            "store",
            f"a damaged store was moved aside, last to {found[-1]}",
            "save what is in it by `sqlite3 FILE .recover`, delete it, and check the disk",
        )


def _judge_room(settings: Settings, size_bytes: int) -> Finding:
    free_bytes = shutil.disk_usage(_existing_folder(settings.store)).free
    wanted_bytes = max(0, settings.store_max_bytes - size_bytes)
    words = (
        f"{_size(free_bytes)} are free; the store has {_size(size_bytes)} and may grow "
        f"to {_size(settings.store_max_bytes)}"
    )
    mend = "make room, or lower SPANTAP_STORE_MAX_BYTES"
    if free_bytes < min(_LEAST_ROOM_BYTES, wanted_bytes):
        return bad("disk", words, f"{mend}: spans wait in memory meanwhile, and some will be lost")
    if free_bytes < wanted_bytes:
        return note("disk", words, mend)
    return good("disk", words)


def _size_bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _count(number: int) -> str:
    return "1 span is" if number == 1 else f"{number:,} spans are"


def _size(size_bytes: int) -> str:
    unit, length = ("GiB", 1024 * _MIB) if size_bytes >= 1024 * _MIB else ("MiB", _MIB)
    return f"{size_bytes / length:,.1f} {unit}"


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"
