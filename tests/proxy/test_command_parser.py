"""``proxy.commands.command_parser``: flags, and words of a filter among them."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.__main__ import build_parser, main
from telemetry.facts import ORDERS
from telemetry.finding.keys import KEYS


def parse(*arguments: str) -> dict[str, Any]:
    """What is said to ``spantap traces``."""
    return vars(build_parser().parse_args(["traces", *arguments]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], []),
        (["status:error", "--json", "a text", "--limit", "5", "in>5"],
         ["status:error", "a text", "in>5"]),
        (["-status:ok", "--json", "-http:429", "-run=x", '-name:"a b"'],
         ["-status:ok", "-http:429", "-run=x", '-name:"a b"']),
        (["--json", "--", "--limit", "-x", "--"], ["--limit", "-x", "--"]),
        (["show", "--json", "4b34"], ["show", "4b34"]),
        (["-"], ["-"]),
    ],
)  # fmt: skip
def test_words_stand_among_flags(arguments: list[str], words: list[str]) -> None:
    """In their order; what excludes is no flag, and nothing is behind ``--``."""
    assert parse(*arguments)["words"] == words


def test_a_flag_has_its_value() -> None:
    """Also one that looks like a word."""
    options = parse("--run", "-x:y", "--since=2h", "--sort", "cost")
    assert (options["run_name"], options["since"], options["sort"]) == ("-x:y", "2h", "cost")
    assert options["words"] == []


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["traces", "--limti", "5"], "traces"),
        (["traces", "-x", "status:ok"], "traces"),
        (["traces", "--sort", "fast"], "traces"),
        (["traces", "--limit", "0"], "traces"),
        (["check", "--nope"], "check"),
        (["demo", "now"], "demo"),
    ],
)
def test_a_mistake_is_told_with_the_usage_of_the_command(
    arguments: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2; what is no word is an unknown flag."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"usage: spantap {command} [")
    assert arguments[1] in said


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["sreve"], "unknown command 'sreve'; did you mean serve?"),
        (["trace", "--limti"], "did you mean traces?"),
        (["--nope", "stat"], "did you mean stats?"),
        (["xyzzy"], "unknown command 'xyzzy'; use serve, check, "),
    ],
)
def test_a_mistyped_command_is_told_with_the_nearest(
    arguments: list[str], advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, with the usage of the program; all commands where none is near."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: spantap [")
    assert advice in said


def test_a_wrong_flag_is_told_without_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    """It may be a key."""
    with pytest.raises(SystemExit):
        main(["store", "send", "--to", "http://127.0.0.1:1", "--headr=authorization=Bearer sekret"])
    said = capsys.readouterr().err
    assert "--headr=…" in said
    assert "sekret" not in said


def test_the_help_lists_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    """With an example."""
    with pytest.raises(SystemExit):
        parse("--help")
    said = capsys.readouterr().out
    assert all(f"  {key.example} " in said for key in KEYS.values())
    with pytest.raises(SystemExit):
        build_parser().parse_args(["check", "--help"])
    assert "words of a filter" not in capsys.readouterr().out


def test_the_orders_are_those_that_there_are() -> None:
    """Each is taken; the parser names them itself, for it does not import them."""
    assert [parse("--sort", order)["sort"] for order in ORDERS] == [*ORDERS]
    with pytest.raises(SystemExit):
        parse("--sort", "newest")
