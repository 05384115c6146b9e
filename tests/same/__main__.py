"""``python -m tests.same COMMIT [PART …]``: compare the version of a commit with this checkout.

Parts are ``frames`` (what a worker sends to telemetry), ``spans`` (a setting at a time),
``written`` (a store that the version before wrote),
``damaged`` (the same, damaged, then opened by either version) and ``old`` (one of schema 3).
Exit status 1: something differs that :mod:`tests.same.wanted` does not name.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tests.same.launch import Version
from tests.same.masking import mask_bytes, mask_spans
from tests.same.reading import read_store
from tests.same.settings import SETTINGS
from tests.same.stores import damage, grow, write_store
from tests.same.traffic import load_exchanges
from tests.same.wanted import leave_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_ROOT = Path(__file__).resolve().parents[2]
_PARTS = ("frames", "spans", "written", "damaged", "old")
_SCHEMA_3 = "eb6e5182df0dcc7cb4963eb3225ea677cff74c9b"
"""The last commit that wrote stores of schema 3."""

_STEADY = {"SPANTAP_RUN_IDLE_SECONDS": "86400"}
"""No run ends by its age, however slow the machine is."""

_CHATS = 452
"""The exchanges of the first recordings: that commit knew no other APIs."""

_is_observed = re.compile(
    rb"POST (?:/[\w.:@%-]+)*/(?:chat/completions|responses|messages|embeddings|rerank|moderations"
    rb"|models/[\w.@%-]+:(?:stream)?[Gg]enerateContent)(?:\?[!-~]*)? HTTP"
).match
_ONE_READ_BYTES = 30_000
_SHOWN = 10
_EITHER_SIDE_CHARS = 120


class Comparison:
    """Two versions, and what they said that differs."""

    def __init__(self, folder: Path, before: Path) -> None:
        self._folder = folder
        self._before, self._after = (
            Version(name, tree, _make_folder(folder / name))
            for name, tree in (("before", before), ("after", _ROOT))
        )
        self._exchanges = load_exchanges()
        self._differing = 0
        self._compared = 0

    def run(self, parts: list[str]) -> int:
        """Compare these parts; return how many answers differ."""
        if "frames" in parts:
            self._compare("frames", self._relay)
        written = self._folder / "written.db"
        for name, settings in SETTINGS.items():
            if "spans" in parts:
                self._compare(name, functools.partial(self._record, name, settings))
        if {"written", "damaged"} & {*parts}:
            for _ in write_store(self._before, written, self._exchanges, {}):
                pass
        if "written" in parts:
            self._compare_readings("written", written, grows=False)
        if "damaged" in parts:
            damage(written)
            self._compare_readings("damaged", written, grows=True)
        if "old" in parts:
            self._compare_readings("old", self._write_old_store(), grows=True)
        print(f"{self._compared} answers compared, {self._differing} differ", flush=True)
        return self._differing

    def _relay(self, version: Version) -> Iterator[tuple[str, str]]:
        """The frames of each exchange that fits into one read on every side."""
        pairs = [
            (one.request.replace(b"Connection: close\r\n", b""), one.answer)
            for one in self._exchanges
            if _is_observed(one.request)
            and one.answer.startswith(b"HTTP/1.1 200 OK")
            and max(map(len, one)) <= _ONE_READ_BYTES
        ]
        lines = "\n".join(part.hex() for pair in pairs for part in pair)
        done = version.run_script(Path(__file__).with_name("frames.py"), lines)
        for number, frames in enumerate(done.splitlines()):
            yield f"frames {number}", bytes.fromhex(frames).decode("utf-8", "backslashreplace")

    def _record(
        self, name: str, settings: Mapping[str, str], version: Version
    ) -> Iterator[tuple[str, str]]:
        """What both sides get of each exchange, and the spans of all."""
        store = version.home / "recorded.db"
        got = write_store(version, store, self._exchanges, {**_STEADY, **settings})
        for number, (received, answered) in enumerate(got):
            yield f"request {number}", mask_bytes(received)
            yield f"answer {number}", mask_bytes(answered)
        told = version.run("store", "export", "--format", "otlp", "--store", str(store))
        yield from mask_spans(told, functools.partial(leave_out, f"{name}: span"))
        for file in version.home.glob("recorded.db*"):
            file.unlink() if file.is_file() else shutil.rmtree(file)

    def _compare_readings(self, part: str, store: Path, *, grows: bool) -> None:
        def read(version: Version) -> Iterator[tuple[str, str]]:
            copy = version.home / store.name
            shutil.copyfile(store, copy)
            if grows:
                grow(version, copy)
            return read_store(version, copy)

        self._compare(part, read)

    def _write_old_store(self) -> Path:
        store = self._folder / "old.db"
        with _checked_out(_SCHEMA_3, self._folder / "old") as tree:
            old = Version("old", tree, _make_folder(self._folder / "old-home"))
            for _ in write_store(old, store, self._exchanges[:_CHATS], {}):
                pass
        return store

    def _compare(self, part: str, ask: Callable[[Version], Iterator[tuple[str, str]]]) -> None:
        """Ask both versions at once, and say how their answers differ."""
        with ThreadPoolExecutor() as pool:
            before, after = pool.map(lambda of: dict(ask(of)), (self._before, self._after))
        print(f"{part}: {len(before)} answers", flush=True)
        self._compared += len(before)
        shown = 0
        for name in [*before, *(after.keys() - before.keys())]:
            place = f"{part}: {name}"
            old, new = (leave_out(place, told.get(name, "nothing")) for told in (before, after))
            if old != new:
                self._differing += 1
                if (shown := shown + 1) <= _SHOWN:
                    print(f"  {place}\n{_show_difference(old, new)}", flush=True)


def _show_difference(old: str, new: str) -> str:
    same = next(
        (place for place, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]),
        min(len(old), len(new)),
    )
    start, end = max(0, same - _EITHER_SIDE_CHARS), same + _EITHER_SIDE_CHARS
    return f"    before: {old[start:end]!r}\n    after:  {new[start:end]!r}"


@contextlib.contextmanager
def _checked_out(commit: str, folder: Path) -> Iterator[Path]:
    git = ("git", "-C", str(_ROOT), "worktree")
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def _make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


def main() -> int:
    """Read the arguments and compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.same", description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("parts", nargs="*", metavar="PART", default=_PARTS)
    arguments = parser.parse_args()
    if unknown := {*arguments.parts} - {*_PARTS}:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    with (
        tempfile.TemporaryDirectory() as folder,
        _checked_out(arguments.commit, Path(folder, "tree")) as before,
    ):
        return int(Comparison(Path(folder), before).run(list(arguments.parts)) > 0)


if __name__ == "__main__":
    sys.exit(main())
