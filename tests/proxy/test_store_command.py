"""Commands that read a store: how they complain, and how they end."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from proxy.__main__ import main
from proxy.commands.store_command import StoreCommand
from telemetry.errors import ConfigurationError, FilterError, StoreDamaged, StoreFull

COMMANDS = (
    ("traces",),
    ("traces", "show", "last"),
    ("stats",),
    ("store", "info"),
    ("store", "export", "--format", "jsonl"),
    ("store", "send", "--to", "http://127.0.0.1:9"),
    ("store", "delete", "model:x", "--yes"),
    ("store", "compact"),
)


def end(error: BaseException) -> tuple[int, str]:
    """How a command ends that an error came out of: its status, and what it said."""
    err = io.StringIO()
    with StoreCommand("spantap stats", Path(__file__), err) as command:
        raise error
    return command.status, err.getvalue()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_store_that_is_missing_or_a_folder_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """By every command, with its name, and nothing is made."""
    for path, wanted in ((tmp_path / "none.db", "there is no store at"), (tmp_path, "is a folder")):
        assert main([*words, "--store", str(path)]) == 1
        told = capsys.readouterr()
        assert told.out == ""
        assert wanted in told.err
        assert told.err.startswith(f"spantap {words[0]}")
        assert told.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_orders_that_cannot_be_followed_have_a_status_of_their_own() -> None:
    """A filter is shown with a mark; what the store lacks is another matter."""
    status, said = end(FilterError("unknown key `modle`", "a modle:x", 2))
    assert (status, said.count("\n")) == (2, 3)
    assert said.startswith("spantap stats: unknown key `modle`")
    assert end(ConfigurationError("no price of \x1b[2J x")) == (
        2,
        "spantap stats: no price of \\x1b[2J x.\n",
    )
    assert end(StoreFull("it is full")) == (1, "spantap stats: it is full\n")
    assert end(StoreDamaged("it is damaged"))[0] == 1
    assert end(OSError("no room"))[0] == 1


@pytest.mark.parametrize("error", [BrokenPipeError(), KeyboardInterrupt(), RuntimeError()])
def test_other_errors_pass(error: BaseException) -> None:
    """Those of nobody who reads on, and those of faults."""
    with pytest.raises(type(error)):
        end(error)
