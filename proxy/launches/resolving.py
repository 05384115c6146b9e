"""Finds which known program a command starts, also behind ``npx``, ``env`` or a script.

Nothing is run. A command is read word by word: a wrapper is skipped with its flags, a link is
followed, and a short shell script is read for the command that it runs. Where a script or a shell's
text starts the program, flags can be put in only if the script passes its own arguments on.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from proxy.launches.programs import Program, read_json, read_packages, read_programs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAX_DEPTH = 6
"""How many wrappers may stand one within the other; a script may even run itself."""

MAX_SCRIPT_BYTES = 64 * 1024
"""A longer script is no wrapper."""

MAX_LINKS = 8


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """What a command starts.

    Attributes:
        name: the name of the program; of the command's first word, if it is not known.
        program: what is known about it.
        arguments: its arguments, as far as they can be seen.
        at: where more arguments go in the command; ``None`` if they do not reach the program.
        through: the name of what starts it, if that is something else.
        assigned: variables that the command itself sets (``env A=b``).
    """

    name: str
    program: Program | None = None
    arguments: tuple[str, ...] = ()
    at: int | None = 1
    through: str = ""
    assigned: dict[str, str] = {}


class _Wrapper(NamedTuple):
    """A program that starts another one.

    Attributes:
        valued: its flags whose value is the next word.
        skipped: how many words stand before the command.
        takes_text: flags whose value is a command as text.
        eats_flags: it takes flags behind the command for its own, unless ``--`` stands before.
    """

    valued: frozenset[str] = frozenset()
    skipped: int = 0
    takes_text: frozenset[str] = frozenset()
    eats_flags: bool = False


class _Found(NamedTuple):
    """A known program in some words: its arguments, and where more of them go."""

    name: str
    arguments: tuple[str, ...]
    at: int | None
    assigned: dict[str, str] = {}  # noqa: RUF012 - nobody changes it


_NPX = _Wrapper(
    frozenset(("-p", "--package", "-w", "--workspace", "--prefix", "--registry", "--cache")),
    takes_text=frozenset(("-c", "--call")),
)
_PNPM = _Wrapper(frozenset(("--package", "-C", "--dir")))
_UV = _Wrapper(
    frozenset(
        (
            *("-p", "--python", "--from", "-w", "--with", "--with-editable", "--index", "-i"),
            *("--with-requirements", "--index-url", "--extra-index-url", "--directory"),
            *("--project", "--env-file", "--extra", "--group", "--cache-dir", "--constraints"),
        )
    )
)
_SHELL = _Wrapper(frozenset(("-o", "+o", "--rcfile")), takes_text=frozenset(("-c", "-lc", "-ec")))
_NODE = _Wrapper(
    frozenset(("-r", "--require", "--import", "--loader", "-C", "--conditions", "--env-file")),
)
_PLAIN = _Wrapper()

_WRAPPERS: Mapping[str, _Wrapper] = {
    "npx": _NPX,
    "npm exec": _NPX._replace(eats_flags=True),
    "npm x": _NPX._replace(eats_flags=True),
    "pnpx": _PNPM,
    "pnpm dlx": _PNPM,
    "pnpm exec": _PNPM,
    "yarn dlx": _PNPM,
    "yarn exec": _PLAIN,
    "bunx": _PNPM,
    "bun x": _PNPM,
    "bun run": _PLAIN,
    "bun": _PLAIN,
    "deno run": _PLAIN,
    "uvx": _UV,
    "uv tool run": _UV,
    "uv run": _UV,
    "pipx run": _Wrapper(frozenset(("--spec", "--python", "--pip-args", "--index-url", "-i"))),
    "poetry run": _PLAIN,
    "node": _NODE,
    "env": _Wrapper(
        frozenset(("-u", "--unset", "-C", "--chdir")),
        takes_text=frozenset(("-S", "--split-string")),
    ),
    "nohup": _PLAIN,
    "setsid": _PLAIN,
    "time": _PLAIN,
    "exec": _Wrapper(frozenset("-a")),
    "command": _PLAIN,
    "nice": _Wrapper(frozenset(("-n", "--adjustment"))),
    "stdbuf": _Wrapper(frozenset(("-i", "-o", "-e"))),
    "timeout": _Wrapper(frozenset(("-k", "--kill-after", "-s", "--signal")), skipped=1),
    **dict.fromkeys(("sh", "bash", "dash", "zsh", "ksh"), _SHELL),
}
_WORDS_OF_WRAPPERS = 3
_PYTHON = re.compile(r"python[0-9.]*|pypy[0-9.]*")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_SHEBANG = re.compile(rb"#!.*\b(?:ba|da|z|k)?sh\b")
_GITHUB = re.compile(r".*github(?:\.com/|:)([^/]+/[^/#]+?)(?:\.git)?(?:#.*)?")
_VERSION = re.compile(r"(?<=.)(?:@|\[|==|~=|>=).*", re.DOTALL)
_KEYWORDS = frozenset(("then", "else", "do", "if", "elif", "!", "{", "(", "while"))
_PASSED_ON = frozenset(("$@", "${@}", "${1+$@}", "${@:1}"))


def resolve(command: Sequence[str], environ: Mapping[str, str]) -> Resolved:
    """Find which program a command starts, and where its arguments are."""
    first = Path(command[0]).name
    found = _follow(command, environ.get("PATH"), MAX_DEPTH)
    if found is None:
        return Resolved(name=first, arguments=tuple(command[1:]))
    return Resolved(
        name=found.name,
        program=read_programs()[found.name],
        arguments=found.arguments,
        at=found.at,
        through="" if first == found.name else first,
        assigned=found.assigned,
    )


def _follow(words: Sequence[str], path: str | None, depth: int) -> _Found | None:
    """Find a known program in the words of a command."""
    if not words or depth == 0:
        return None
    name = Path(words[0]).name
    if name in read_programs():
        return _Found(name, tuple(words[1:]), 1)
    if (known := _find_package(words[0])) is not None:
        return _Found(known, tuple(words[1:]), 1)
    if _PYTHON.fullmatch(name):
        return _follow_python(words, path, depth)
    for count in range(_WORDS_OF_WRAPPERS, 0, -1):
        wrapper = _WRAPPERS.get(" ".join((name, *words[1:count])))
        if wrapper is not None and len(words) > count:
            return _follow_wrapper(words, count, wrapper, path, depth)
    return _follow_file(words, path, depth)


def _follow_wrapper(
    words: Sequence[str], begin: int, wrapper: _Wrapper, path: str | None, depth: int
) -> _Found | None:
    """Skip a wrapper with its flags and assignments."""
    at, is_closed = begin, False
    assigned: dict[str, str] = {}
    while at < len(words):
        word = words[at]
        if word == "--":
            is_closed = True
            at += 1
            break
        flag, _, text = word.partition("=")
        if flag in wrapper.takes_text:
            texts = [text] if text else words[at + 1 : at + 2]
            found = _follow_text("".join(texts), path, depth)
            return found if found is None else found._replace(at=None)
        if word in wrapper.valued:
            at += 2
        elif word.startswith(("-", "+")):
            at += 1
        else:
            break
    while wrapper is _WRAPPERS["env"] and at < len(words):
        if (one := _ASSIGNED.fullmatch(words[at])) is None:
            break
        assigned[one[1]] = one[2]
        at += 1
    at += wrapper.skipped
    inner = _follow(words[at:], path, depth - 1)
    if inner is None:
        return None
    puts = None if inner.at is None or (wrapper.eats_flags and not is_closed) else at + inner.at
    return inner._replace(at=puts, assigned={**assigned, **inner.assigned})


def _follow_python(words: Sequence[str], path: str | None, depth: int) -> _Found | None:
    """Follow ``python -m MODULE`` and ``python SCRIPT``."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        if not word.startswith("--") and "c" in word:
            return None
        at += 2 if word in {"-W", "-X"} else 1
        if not word.startswith("--") and word.endswith("m"):
            break
    inner = _follow(words[at:], path, depth - 1)
    if inner is None:
        return None
    return inner._replace(at=None if inner.at is None else at + inner.at)


def _follow_file(words: Sequence[str], path: str | None, depth: int) -> _Found | None:
    """Follow links, the package that a file is in, and what a shell script runs."""
    where = shutil.which(words[0], path=path)
    file, given = Path(where or words[0]), tuple(words[1:])
    if not file.is_file():
        return None
    for _ in range(MAX_LINKS):
        if not file.is_symlink():
            break
        file = file.parent / file.readlink()
        if file.name in read_programs():
            return _Found(file.name, given, 1)
    if (name := _find_package_of(file)) is not None:
        return _Found(name, given, 1)
    try:
        with file.open("rb") as script:
            data = script.read(MAX_SCRIPT_BYTES + 1)
    except OSError:
        return None
    if len(data) > MAX_SCRIPT_BYTES or not _SHEBANG.match(data):
        return None
    found = _follow_text(data.decode("utf-8", "replace"), path, depth)
    if found is None:
        return None
    told = [given if word in _PASSED_ON else (word,) for word in found.arguments]
    return found._replace(arguments=tuple(chain.from_iterable(told)))


def _follow_text(text: str, path: str | None, depth: int) -> _Found | None:
    """Find the last command of a shell's text that starts a known program.

    Arguments of the script reach it only if they stand first among the program's.
    """
    last = None
    for words in _split_commands(text):
        found = _follow(words, path, depth - 1)
        if found is not None:
            passes_on = found.at is not None and _PASSED_ON & {*words[found.at : found.at + 1]}
            last = found._replace(at=1 if passes_on else None)
    return last


def _split_commands(text: str) -> Iterator[list[str]]:
    """Split a shell's text into simple commands, without keywords and assignments before them."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            tokens = [*lexer]
        except ValueError:  # a quote that another line closes
            continue
        words: list[str] = []
        for token in (*tokens, ";"):
            if token and not token.strip(";&|()<>"):
                yield words
                words = []
            elif words or not (token in _KEYWORDS or _ASSIGNED.fullmatch(token)):
                words.append(token)


def _find_package(word: str) -> str | None:
    """Find the program of a package, with or without a version, or of a path within one.

    >>> _find_package("@openai/codex@latest"), _find_package("aider-chat==0.86")
    ('codex', 'aider')
    >>> _find_package("https://github.com/google-gemini/gemini-cli")
    'gemini'
    """
    packages = read_packages()
    for package, program in packages.items():
        if f"{'' if package[0] == '@' else '/node_modules'}/{package}/" in word:
            return program
    if (at := _GITHUB.fullmatch(word)) is not None:
        return packages.get(at[1])
    name = _VERSION.sub("", word)
    return packages.get(name) or (name if name in read_programs() else None)


def _find_package_of(file: Path) -> str | None:
    """Find the program of the package of Node.js in which a file is."""
    real = Path(os.path.realpath(file))
    for folder in real.parents:
        if (folder / "package.json").is_file():
            name = read_json(folder / "package.json").get("name")
            return read_packages().get(name) if isinstance(name, str) else None
    return None
