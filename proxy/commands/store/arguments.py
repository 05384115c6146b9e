"""The arguments of ``spantap store`` and its subcommands; other modules do the work."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proxy.commands.command_parser import CommandParser

    FindStore = Callable[[dict[str, Any]], Path]

_FORMATS: Final = ("jsonl", "otlp")
"""The names in :data:`proxy.commands.store.export.FORMATS`, which takes long to import."""


def add_store_commands(
    store: CommandParser, find_store: FindStore, add_store: Callable[[CommandParser], None]
) -> None:
    """Add the subcommands of ``spantap store``.

    Args:
        store: its parser.
        find_store: finds the path of the store by the options.
        add_store: adds the flags that name a store.
    """
    commands = store.add_subparsers(required=True, metavar="WHAT", parser_class=type(store))

    def add(name: str, run: Callable[[Path, dict[str, Any]], int], about: str) -> CommandParser:
        command = commands.add_parser(
            name, help=about, description=f"{about[:1].upper()}{about[1:]}."
        )
        command.set_defaults(run=lambda options: run(find_store(options), options))
        add_store(command)
        return command

    add("info", _info, "show what the store is: size, calls, owner").add_argument(
        "--json", action="store_true", help="as a JSON object"
    )

    export = add("export", _export, "write calls as lines, oldest first")
    _add_filter(export)
    export.add_argument("--format", choices=_FORMATS, required=True, help="what a line is")
    export.add_argument(
        "--out", metavar="FILE", help="a new file to write them to; -: standard output"
    )

    send = add("send", _send, "send calls to an OTLP backend, whatever their state")
    _add_filter(send)
    send.add_argument(
        "--to",
        metavar="URL",
        help="an OTLP/HTTP backend, without a path at /v1/traces (that of the OTEL_* variables)",
    )
    send.add_argument(
        "--header", action="append", default=[], metavar="NAME=VALUE", help="with --to: a header"
    )
    send.add_argument("--dry-run", action="store_true", help="count them, and send nothing")

    delete = add("delete", _delete, "delete calls for good")
    _add_filter(delete)
    delete.add_argument("--dry-run", action="store_true", help="count them, and delete nothing")
    delete.add_argument("--yes", action="store_true", help="do not ask")

    add("compact", _compact, "give unused room of the store back to the disk")


def _add_filter(command: CommandParser) -> None:
    command.takes_words = True
    command.usage = "%(prog)s [FLAG ...] [WORD ...]"
    command.add_argument(
        "--since", metavar="TIME", help="calls since then: 2h, 14:03, today, 2026-01-31"
    )


def _info(store: Path, options: dict[str, Any]) -> int:
    from proxy.commands.store.info import run_info  # noqa: PLC0415 - as in proxy.__main__

    return run_info(store, as_json=options["json"], out=sys.stdout, err=sys.stderr)


def _export(store: Path, options: dict[str, Any]) -> int:
    from pathlib import Path  # noqa: PLC0415

    from proxy.commands.store.export import ExportOptions, run_export  # noqa: PLC0415

    asked = ExportOptions(
        words=options["words"],
        since=options["since"],
        form=options["format"],
        file=None if options["out"] in {None, "-"} else Path(options["out"]),
    )
    return run_export(store, asked, out=sys.stdout, err=sys.stderr)


def _send(store: Path, options: dict[str, Any]) -> int:
    from proxy.commands.store.send import SendOptions, run_send  # noqa: PLC0415

    asked = SendOptions(
        to=options["to"],
        headers=options["header"],
        words=options["words"],
        since=options["since"],
        dry_run=options["dry_run"],
    )
    return run_send(store, asked, environ=os.environ, out=sys.stdout, err=sys.stderr)


def _delete(store: Path, options: dict[str, Any]) -> int:
    from proxy.commands.store.delete import DeleteOptions, run_delete  # noqa: PLC0415

    asked = DeleteOptions(
        words=options["words"],
        since=options["since"],
        dry_run=options["dry_run"],
        yes=options["yes"],
    )
    return run_delete(store, asked, answers=sys.stdin, out=sys.stdout, err=sys.stderr)


def _compact(store: Path, _: dict[str, Any]) -> int:
    from proxy.commands.store.delete import run_compact  # noqa: PLC0415

    return run_compact(store, out=sys.stdout, err=sys.stderr)
