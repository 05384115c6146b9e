"""``spantap store info``: describes a store and the files beside it, without changing anything.

The exit status is 0; 1 if the store is missing or cannot be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.commands.amounts import local_time
from proxy.commands.store_command import StoreCommand, describe_size
from proxy.escape import escape_line
from proxy.processes.launch_channel import find_control_socket
from proxy.reading.record import encode_line, format_time
from telemetry.frames.spool import measure_spool, spool_folder
from telemetry.store.description import describe_store, find_set_aside
from telemetry.store.lock import find_holder

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

    from codec.text.jsontext import JsonObject

SCHEMA_VERSION: Final = 1
"""The version of the JSON, which rises when a member changes its meaning or is removed."""

_NAMES: Final = {"AGENT": "agents", "TOOL": "tools", "MARKER": "markers"}
"""The names under which spans that are not calls are counted, by their kind."""


def run_info(store: Path, *, as_json: bool, out: TextIO, err: TextIO) -> int:
    """Describe the store at `store`, and return the exit status."""
    with StoreCommand("spantap store info", store, err) as command:
        command.check_store()
        record = _build_record(store)
        if as_json:
            out.write(f"{encode_line(record)}\n")
        else:
            lines = _describe(record)
            out.writelines(f"{title:<8}  {escape_line(words)}\n" for title, words in lines)
    return command.status


def _build_record(store: Path) -> JsonObject:
    """Build the JSON.

    Raises:
        StoreError, OSError: something cannot be read.
    """
    described = describe_store(store)
    holder = find_holder(store)
    return {
        "schema_version": SCHEMA_VERSION,
        "path": str(store),
        "size_bytes": described.file_bytes + described.wal_bytes,
        "wal_bytes": described.wal_bytes,
        "free_bytes": described.free_bytes,
        "store_schema": described.schema_version,
        "newest_store_schema": described.newest_schema_version,
        "spans": sum(described.counts.values()),
        "calls": sum(described.counts.values()) - sum(described.derived.values()),
        **{_NAMES[kind]: count for kind, count in described.derived.items()},
        **described.counts,
        "oldest_ns": described.oldest_ns,
        "newest_ns": described.newest_ns,
        "oldest_time": None if described.oldest_ns is None else format_time(described.oldest_ns),
        "newest_time": None if described.newest_ns is None else format_time(described.newest_ns),
        "pictures": described.pictures,
        "picture_bytes": described.picture_bytes,
        "raw_answers": described.raw_answers,
        "raw_answer_bytes": described.raw_answer_bytes,
        "spool_bytes": measure_spool(spool_folder(store)),
        "owner": holder,
        "takes_orders": holder is not None and find_control_socket(store) is not None,
        "set_aside": [str(path) for path in find_set_aside(store)],
    }


def _describe(record: JsonObject) -> list[tuple[str, str]]:
    """Write the record as lines, each with a title."""
    states = ("pending", "delivered", "rejected", "kept")
    counts = ", ".join(f"{record[state]:,} {state}" for state in states if record[state])
    others = [(name, f"{record[name]:,}") for name in _NAMES.values() if record[name]]
    spans = f"{record['spans']:,}{f': {counts}' if counts else ''}"
    sizes = [describe_size(record["size_bytes"])]
    if record["wal_bytes"]:
        sizes.append(f"{describe_size(record['wal_bytes'])} of it the write-ahead log")
    if record["free_bytes"]:
        sizes.append(f"{describe_size(record['free_bytes'])} of it free")
    if record["pictures"]:
        kept = f"{describe_size(record['picture_bytes'])} of it {record['pictures']:,} pictures"
        sizes.append(kept)
    if record["raw_answers"]:
        kept = f"{describe_size(record['raw_answer_bytes'])} of it {record['raw_answers']:,}"
        sizes.append(f"{kept} raw answers")
    schema = str(record["store_schema"])
    if record["store_schema"] < record["newest_store_schema"]:
        schema += f" (its next owner makes it {record['newest_store_schema']})"
    owner = "nobody"
    if record["owner"] is not None:
        kind = "a proxy" if record["takes_orders"] else "which takes no orders"
        owner = f"process {record['owner']}, {kind}"
    return [
        ("path", record["path"]),
        ("owner", owner),
        ("size", ", ".join(sizes)),
        ("schema", schema),
        ("calls", f"{record['calls']:,}" if others else spans),
        *others,
        *([("spans", spans)] if others else []),
        ("oldest", _local(record["oldest_ns"])),
        ("newest", _local(record["newest_ns"])),
        ("spool", describe_size(record["spool_bytes"])),
        *(("aside", f"{path}, of a store that was damaged") for path in record["set_aside"]),
    ]


def _local(at_ns: int | None) -> str:
    return "-" if at_ns is None else f"{local_time(at_ns, None):%Y-%m-%d %H:%M:%S}"
