"""The parser of the program, and that of a subcommand: its flags, and for some words among them."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

from proxy.escape import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_EXCLUDES: Final = re.compile(r"-[A-Za-z][A-Za-z_]*[:=<>]")
"""The beginning of a word that excludes: ``-status:ok``."""

_MARK: Final = "\0"
"""Before such a word, so that argparse does not take it for a flag; no argument can have it."""


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints steer no terminal, whatever the arguments are."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end with status 2."""
        super().error(escape(message))


class ProgramParser(_Parser):
    """The program, which knows what a mistyped command is to be.

    Attributes:
        commands: the names of its commands. Its own flags have no values, so that the first
            argument that is no flag is a command.
    """

    commands: Sequence[str] = ()

    def parse_known_args(
        self, args: Iterable[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse arguments; one that is in the place of a command, and none, is an error."""
        given = [*(sys.argv[1:] if args is None else args)]
        word = next((one for one in given if not one.startswith("-")), None)
        if word is not None and word not in self.commands:
            from difflib import get_close_matches  # noqa: PLC0415 - for this alone

            nearest = get_close_matches(word, self.commands, n=1)
            known = f"did you mean {nearest[0]}?" if nearest else f"use {', '.join(self.commands)}"
            self.error(f"unknown command {word!r}; {known}")
        return super().parse_known_args(given, namespace)


class CommandParser(_Parser):
    """A subcommand, which complains of what it does not know with its own usage.

    Attributes:
        takes_words: what is no flag is one of ``words``, wherever it stands, also where it begins
            with ``-`` as a condition that excludes does; and so is all that follows ``--``.
    """

    takes_words = False

    def parse_known_args(
        self, args: Iterable[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse arguments; there are never any left, for those are an error."""
        given = [*(sys.argv[1:] if args is None else args)]
        behind: list[str] = []
        if self.takes_words:
            end = given.index("--") if "--" in given else len(given)
            behind = given[end + 1 :]
            given = [_MARK + word if _EXCLUDES.match(word) else word for word in given[:end]]
        options, rest = super().parse_known_args(given, namespace)
        unknown = rest
        if self.takes_words:
            unknown = [word for word in rest if word.startswith("-") and word != "-"]
            for name, value in vars(options).items():
                if isinstance(value, str):
                    setattr(options, name, value.removeprefix(_MARK))
            options.words = [word.removeprefix(_MARK) for word in rest] + behind
        if unknown:
            # Without values: behind a flag that is spelt wrong may stand a key.
            names = [re.sub("=.+", "=…", word, flags=re.DOTALL) for word in unknown]
            self.error(f"unrecognized arguments: {' '.join(names)}")
        return options, []

    def format_help(self) -> str:
        """Write the help; behind that of a command that takes words, what those can be."""
        if not self.takes_words:
            return super().format_help()
        from telemetry.finding.keys import describe_keys  # noqa: PLC0415 - for this alone

        words = [
            *describe_keys(),
            ("-status:ok", "not: any of them can be turned round"),
            ("timeout", "a text in requests and answers, in either case"),
            ("'\"not found\"'", "the same, with spaces"),
        ]
        lines = [f"  {example:<22}  {meaning}\n" for example, meaning in words]
        return f"{super().format_help()}\nwords of a filter:\n{''.join(lines)}"
