"""Prints what a worker sends to telemetry of each exchange that comes on standard input.

It is run by its path, with one version's checkout as the first folder of imports: that version's
``tests.cost`` has a worker whose time stands still, so that its frames are the same in each run but
for ids, the port of the upstream and the digests of keys.
"""

from __future__ import annotations

import re
import struct
import sys

from tests.cost.surroundings import Surroundings

_IDS = re.compile(rb"\b(?:[0-9a-f]{32}|[0-9a-f]{16})\b")
_TO_DIGESTS = b"\xa6cancel\xc4"
"""In MessagePack: what stands before the digests of keys, which are so many bytes as the next one
says."""


def main() -> None:
    """Relay pairs of lines, request and answer in hexadecimal; print a line for each."""
    lines = [bytes.fromhex(line) for line in sys.stdin]
    surroundings = Surroundings()
    with surroundings.running():
        port = b"\xcd" + struct.pack(">H", surroundings._upstreams.getsockname()[1])
        for request, answer in zip(lines[::2], lines[1::2], strict=True):
            frames = surroundings.relay(request, [answer]).replace(port, b"PORT")
            before, found, rest = frames.partition(_TO_DIGESTS)
            rest = rest[1 + rest[0] :] if found else rest
            print(_IDS.sub(b"ID", before + found + rest).hex())


main()
