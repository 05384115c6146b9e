"""Parsers of the program and of a subcommand: flags, and for some commands words of a filter."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

from proxy.escape import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_EXCLUDES: Final = re.compile(r"-[A-Za-z][A-Za-z_]*[:=<>]")
"""The beginning of a word that excludes calls: ``-status:ok``."""

_MARK: Final = "\0"
"""Put before such a word, so that argparse does not take it for a flag; no argument can have it."""


class _Parser(argparse.ArgumentParser):
    """A parser whose error messages are safe for a terminal, whatever the arguments are."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end with status 2."""
        super().error(escape(message))


class ProgramParser(_Parser):
    """The parser of the program, which suggests a command for a mistyped one.

    Attributes:
        commands: the names of its commands. Flags before a command have no values, so the first
            argument that is not a flag is a command.
    """

    commands: Sequence[str] = ()

    def parse_known_args(
        self, args: Iterable[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse arguments; an unknown command is an error."""
        given = [*(sys.argv[1:] if args is None else args)]
        word = next((one for one in given if not one.startswith("-")), None)
        if word is not None and word not in self.commands:
            from difflib import get_close_matches  # noqa: PLC0415 - only needed here

            nearest = get_close_matches(word, self.commands, n=1)
            known = f"did you mean {nearest[0]}?" if nearest else f"use {', '.join(self.commands)}"
            self.error(f"unknown command {word!r}; {known}")
        return super().parse_known_args(given, namespace)


class CommandParser(_Parser):
    """The parser of a subcommand, whose error about unknown arguments shows the command's usage.

    Attributes:
        add_flags: adds its flags once this command is parsed, where they need imports that other
            commands do without.
        takes_words: arguments that are not flags become ``words``, wherever they stand, also one
            like ``-status:ok``, and everything after ``--``.
    """

    add_flags: Callable[[CommandParser], None] | None = None
    takes_words = False

    def parse_known_args(
        self, args: Iterable[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse all arguments; unknown ones are an error."""
        if self.add_flags is not None:
            self.add_flags(self)
            self.add_flags = None
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
            # Without values: a flag that is spelt wrong may have a key.
            names = [re.sub("=.+", "=…", word, flags=re.DOTALL) for word in unknown]
            self.error(f"unrecognized arguments: {' '.join(names)}")
        return options, []

    def format_help(self) -> str:
        """Write the help; for a command that takes words, add a list of them."""
        if not self.takes_words:
            return super().format_help()
        from telemetry.finding.keys import describe_keys  # noqa: PLC0415 - only needed here

        words = [
            *describe_keys(),
            ("-status:ok", "not: works with each of these"),
            ("timeout", "a text in requests and answers, in either case"),
            ("'\"not found\"'", "the same, with spaces"),
        ]
        lines = [f"  {example:<22}  {meaning}\n" for example, meaning in words]
        return f"{super().format_help()}\nwords of a filter:\n{''.join(lines)}"
