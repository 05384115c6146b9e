"""Which program a command starts, and where its flags go."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.launches.programs import read_programs
from proxy.launches.resolving import MAX_SCRIPT_BYTES, resolve

if TYPE_CHECKING:
    from pathlib import Path

FLAG = ("-c", "x=y")
ANY = "any place"


def put(command: list[str], environ: dict[str, str]) -> tuple[str, str | None]:
    """The program that is found, and the command with a flag; ``None`` where none can be put in."""
    resolved = resolve(command, environ)
    assert resolved.program is not None, command
    if resolved.at is None:
        return resolved.name, None
    return resolved.name, shlex.join([*command[: resolved.at], *FLAG, *command[resolved.at :]])


@pytest.mark.parametrize(
    ("command", "name", "wanted"),
    [
        ("codex exec hi", "codex", "codex -c x=y exec hi"),
        ("/opt/bin/codex exec", "codex", "/opt/bin/codex -c x=y exec"),
        ("npx @openai/codex exec hi", "codex", "npx @openai/codex -c x=y exec hi"),
        ("npx -y @openai/codex@latest e", "codex", "npx -y @openai/codex@latest -c x=y e"),
        ("npx --yes -- @openai/codex e", "codex", "npx --yes -- @openai/codex -c x=y e"),
        ("npx -p @openai/codex codex e", "codex", "npx -p @openai/codex codex -c x=y e"),
        ("npx --package=@openai/codex codex", "codex", "npx --package=@openai/codex codex -c x=y"),
        ("npx -c 'codex exec hi'", "codex", None),
        ("npx https://github.com/google-gemini/gemini-cli -p x", "gemini", ANY),
        ("npm exec @openai/codex e", "codex", None),
        ("npm exec -- @openai/codex e", "codex", "npm exec -- @openai/codex -c x=y e"),
        ("pnpm dlx @openai/codex e", "codex", "pnpm dlx @openai/codex -c x=y e"),
        ("bunx @openai/codex e", "codex", "bunx @openai/codex -c x=y e"),
        ("bun x @qwen-code/qwen-code", "qwen", ANY),
        ("yarn dlx @github/copilot -p x", "copilot", ANY),
        ("uvx aider --model x", "aider", "uvx aider -c x=y --model x"),
        ("uvx --from aider-chat --python 3.12 aider x", "aider", ANY),
        ("uvx aider-chat@0.86", "aider", "uvx aider-chat@0.86 -c x=y"),
        ("uv tool run aider x", "aider", "uv tool run aider -c x=y x"),
        ("uv run --with aider-chat aider", "aider", "uv run --with aider-chat aider -c x=y"),
        ("pipx run aider-chat==0.86 x", "aider", "pipx run aider-chat==0.86 -c x=y x"),
        ("pipx run --spec aider-chat aider x", "aider", ANY),
        ("python -m aider --model x", "aider", "python -m aider -c x=y --model x"),
        ("python3.12 -X dev -um aider", "aider", "python3.12 -X dev -um aider -c x=y"),
        ("python3 -m pipx run aider", "aider", "python3 -m pipx run aider -c x=y"),
        ("python /x/bin/aider y", "aider", "python /x/bin/aider -c x=y y"),
        ("env A=b codex e", "codex", "env A=b codex -c x=y e"),
        ("env -i -u X -- A=b C=d codex e", "codex", ANY),
        ("env -u X A=b C=d npx codex e", "codex", "env -u X A=b C=d npx codex -c x=y e"),
        ("env -S 'codex e'", "codex", None),
        ("nohup nice -n 5 timeout -k 1 60 codex e", "codex", ANY),
        ("sh -c 'cd /x && exec codex e'", "codex", None),
        ("bash -lc 'codex e | tee x'", "codex", None),
        ("node /x/node_modules/@openai/codex/bin/codex.js e", "codex", ANY),
        ("node --import x /opt/claude -p y", "claude", "node --import x /opt/claude -c x=y -p y"),
    ],
)
def test_a_program_is_found_behind_what_starts_it(
    command: str, name: str, wanted: str | None
) -> None:
    """And a flag is put behind the word that names it."""
    found, with_flag = put(shlex.split(command), {"PATH": "/nowhere"})
    assert found == name
    if wanted != ANY:
        assert with_flag == wanted


def test_what_a_command_sets_itself_is_known() -> None:
    """``env`` has the last word on a variable."""
    resolved = resolve(["env", "A=b", "C=d=e", "timeout", "9", "claude", "-p", "A=x"], {})
    assert (resolved.assigned, resolved.arguments) == ({"A": "b", "C": "d=e"}, ("-p", "A=x"))
    assert resolved.through == "env"


@pytest.mark.parametrize(
    "command",
    [
        ["python", "app.py"],
        ["python", "-c", "import aider"],
        ["python", "-W", "error", "-m", "pytest"],
        ["npx", "codexx"],
        ["npx", "-y"],
        ["env"],
        ["env", "A=codex"],
        ["sh", "-c", "echo 'codex"],
        ["sh", "-c", "echo codex"],
        ["timeout", "codex"],
        ["npm", "test", "codex"],
        ["/"],
        [""],
    ],
)
def test_other_commands_are_taken_by_their_first_word(command: list[str], tmp_path: Path) -> None:
    """A word that only looks like a program is none."""
    resolved = resolve(command, {"PATH": str(tmp_path)})
    assert resolved.program is None
    assert (resolved.at, resolved.arguments) == (1, tuple(command[1:]))


def write(path: Path, text: str) -> Path:
    """A program that is a script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o700)
    return path


@pytest.mark.parametrize(
    ("text", "name", "takes_flags"),
    [
        ('#!/bin/sh\nset -e\nexec node /x/lib/codex "$@"\n', "codex", True),
        ('#!/usr/bin/env bash\nA=1 npx -y \\\n  @openai/codex@latest "$@"\n', "codex", True),
        ('#!/bin/sh\ncodex --version; exec codex "${@}"\n', "codex", True),
        ('#!/bin/sh\nif true; then codex exec "$@"; fi\n', "codex", False),
        ("#!/bin/sh\nexec codex exec 'a task'\n", "codex", False),
        ('#!/bin/sh\necho "it\'s"\nX=1 exec env A=b claude "$@" # as ever\n', "claude", True),
    ],
)
def test_a_shell_script_is_read(text: str, name: str, takes_flags: bool, tmp_path: Path) -> None:
    """Flags reach the program where the script passes its arguments on, before others."""
    write(tmp_path / "ask", text)
    environ = {"PATH": str(tmp_path)}
    wanted = shlex.join(["ask", *FLAG, "hi"]) if takes_flags else None
    assert put(["ask", "hi"], environ) == (name, wanted)
    assert put(["sh", str(tmp_path / "ask"), "hi"], environ)[0] == name
    resolved = resolve(["ask", "hi"], environ)
    assert ("hi" in resolved.arguments) == ('"$@"' in text or "{@}" in text)


@pytest.mark.parametrize(
    "text",
    [
        '#!/bin/sh\nexec ask "$@"\n',
        "#!/usr/bin/env python3\ncodex\n",
        "codex\n",
        "#!/bin/sh\n# codex\necho codex\n",
        "#!/bin/sh\n" + "#\n" * MAX_SCRIPT_BYTES + "codex\n",
    ],
)
def test_other_files_are_no_wrappers(text: str, tmp_path: Path) -> None:
    """A script that runs itself, one in another language, one that is long."""
    write(tmp_path / "ask", text)
    assert resolve(["ask"], {"PATH": str(tmp_path)}).program is None


def test_a_link_is_followed_to_a_program_or_its_package(tmp_path: Path) -> None:
    """By the name of any link on the way, or of the package that the file is in."""
    package = tmp_path / "lib" / "agent"
    real = write(package / "dist" / "main.mjs", "#!/usr/bin/env node\n")
    (package / "package.json").write_text('{"name": "@moonshot-ai/kimi-code"}')
    (tmp_path / "k").symlink_to(real)
    (tmp_path / "codex").symlink_to(write(tmp_path / "versions" / "1.2", "#!/bin/cat\n"))
    (tmp_path / "c").symlink_to("codex")
    (tmp_path / "round").symlink_to("round")
    environ = {"PATH": str(tmp_path)}
    assert put(["k", "hi"], environ) == ("kimi", "k -c x=y hi")
    assert put(["node", str(real)], environ)[0] == "kimi"
    assert put(["c", "e"], environ) == ("codex", "c -c x=y e")
    assert resolve(["round"], environ).program is None


WORDS = st.sampled_from(
    ["npx", "env", "A=b", "-y", "--", "-c", "sh", "timeout", "5", "python", "-m", "aider", "codex"]
)


@given(st.lists(st.one_of(WORDS, st.text(max_size=5)), min_size=1, max_size=8))
def test_any_command_is_read(command: list[str]) -> None:
    """Nothing fails, and a flag goes behind the program's word."""
    command = [word.replace("\0", "") for word in command]
    resolved = resolve(command, {"PATH": os.devnull})
    if resolved.at is not None:
        assert 1 <= resolved.at <= len(command)
        if resolved.program is not None:
            assert resolved.name in read_programs()
