"""``telemetry.store.parts``: an owner that is killed leaves recipes and parts that fit together."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.telemetry.store.parts.test_parts import check_stored, read_spans

WRITER = """
import sys
from pathlib import Path
from msgspec.structs import replace
from telemetry.store.store import Store
from tests.telemetry.span_rows import span_id
from tests.telemetry.turns import make_turns
first = int(sys.argv[2])
store = Store.open(Path(sys.argv[1]), delivers=False)
rows = make_turns(60, 800)
while True:
    for at, row in enumerate(rows):
        store.add([replace(row, span_id=span_id(first))])
        first += 1
        print(first, flush=True)
        if at % 4 == 3:
            store.delete([store._file.last_seq - at % 3 - 1])
"""


def test_what_was_committed_can_be_put_together_after_a_kill(path: Path) -> None:
    """At random moments, also while spans are deleted; nothing is left that no recipe names."""
    chance = random.Random(7)
    first = 0
    for _ in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(first)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[4],
        ) as writer:
            assert writer.stdout is not None
            for _ in range(chance.randint(1, 50)):
                first = int(writer.stdout.readline())
            time.sleep(chance.random() * 0.01)
            writer.send_signal(signal.SIGKILL)
            for line in writer.stdout:
                first = int(line)
        first += 1  # the last one may have been recorded, and not told
        told = read_spans(path)
        assert all(told.values())
        assert len(told) >= first * 3 // 4 - 6
        check_stored(path)
