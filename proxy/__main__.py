"""The command line: which command, which flags; the work is done in :mod:`proxy.commands`."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from proxy.commands.command_parser import CommandParser, ProgramParser
from proxy.commands.store.arguments import add_store_commands
from proxy.escape import escape
from proxy.standard_streams import accept_all_text, open_closed_streams
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from proxy.settings.settings import Settings
    from telemetry.pricing.price_table import PriceTable

_SERVE_FLAGS = (
    *("host", "port", "admin_host", "admin_port", "page", "page_port"),
    *("intercept_port", "upstream", "workers", "store"),
)


def build_parser() -> argparse.ArgumentParser:
    """Build the parser. Its names never change (``docs/contract/promises.md#names``)."""
    parser = ProgramParser(
        prog="spantap",
        description="Tap the LLM traffic you already have, and get a correct span for every call.",
    )
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=CommandParser)

    def add(name: str, run: Callable[..., int], about: str) -> CommandParser:
        command = commands.add_parser(name, help=about)
        command.set_defaults(run=run)
        return command

    serve = add("serve", _serve, "run the proxy")
    _add_settings(serve)
    serve.add_argument("--quiet", action="store_true", help="no line for each call on a terminal")
    check = add("check", _check, "probe the configuration, upstreams and OTLP endpoint")
    _add_settings(check)
    check.add_argument("--catalogue", action="store_true", help="list the providers by prefix")
    check.add_argument(
        "--settings", action="store_true", help="list the settings, and where each comes from"
    )
    check.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND …",
        help="say what is known of its program, and nothing else",
    )
    _add_run(add("run", _run, "run a command, its calls through a proxy, and show their table"))
    _add_page(add("page", _page, "see the calls of a store in a browser"))
    env = add("env", _env, "print the variables that send a shell's commands through the proxy")
    _add_store(env)
    env.add_argument("--name", default="", help="a name for all calls of that shell")
    ca = add("ca", _ca, "show, renew or remove the authority of --intercept-port")
    _add_ca(ca)
    add("demo", _demo, "try everything on loopback: no key, no network")
    upstream = add("upstream", _upstream, "run the demo upstream alone")
    upstream.add_argument("--port", type=_port, default=4010, help="its port (4010); 0: any")
    upstream.add_argument(
        "--dialect", default="openai", help="the provider it speaks like (openai); '?' lists them"
    )

    add("traces", _traces, "list and show recorded calls").add_flags = _add_traces
    add("stats", _stats, "sum recorded calls up: tokens, cost, durations").add_flags = _add_stats
    store = commands.add_parser("store", help="look at the store, export, send, delete its calls")
    add_store_commands(store, _find_store, _add_store)
    health = add("healthcheck", _healthcheck, "give an exit status for a container's HEALTHCHECK")
    health.add_argument("--admin-host", default=argparse.SUPPRESS)
    health.add_argument("--admin-port", type=int, default=argparse.SUPPRESS)
    pages = add("help", _help, "print a page of the documentation")
    pages.add_argument("topic", nargs="?", metavar="TOPIC", help="its name; without it, a list")
    parser.commands = [*commands.choices]
    pages.set_defaults(commands=parser.commands)
    return parser


class _ShowVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from codec._version import __version__  # noqa: PLC0415

        parser.exit(message=f"spantap {__version__}\n")


def _add_settings(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--host", default=argparse.SUPPRESS, help="address of the traffic port")
    add("--port", type=int, default=argparse.SUPPRESS, help="traffic port (4000)")
    add("--admin-host", default=argparse.SUPPRESS, help="address of the admin port")
    add("--admin-port", type=int, default=argparse.SUPPRESS, help="admin port (4001)")
    add("--page-port", type=int, default=argparse.SUPPRESS, help="port of the page (4002)")
    add(
        "--intercept-port",
        type=int,
        default=argparse.SUPPRESS,
        help="HTTPS proxy of programs, opens the TLS of hosts of models (off)",
    )
    add(
        "--no-page",
        action="store_false",
        dest="page",
        default=argparse.SUPPRESS,
        help="no page for browsers",
    )
    add(
        "--upstream",
        default=argparse.SUPPRESS,
        help="base URL of all calls (each API's own provider)",
    )
    add("--config", help="a TOML file with settings; also SPANTAP_CONFIG")
    add("--workers", type=int, default=argparse.SUPPRESS, help="worker processes (1)")
    add("--store", default=argparse.SUPPRESS, help="path of the span store")


def _add_run(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--name", default="", help="a name for its calls (the program's)")
    add("--quiet", action="store_true", help="no table of the calls at the end")
    add("--page", action="store_true", dest="opens_page", help="open the page in a browser")
    add("--no-flags", action="store_true", help="give known programs no extra flags")
    add("--upstream", default=argparse.SUPPRESS, help="base URL of all calls")
    add("--intercept", action="store_true", help="open the TLS of hosts of models for the command")
    add(
        "--intercept-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a host to open besides them; may be repeated",
    )
    _add_store(command)
    add("command", nargs=argparse.REMAINDER, metavar="-- COMMAND …", help="what to run")


def _add_ca(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "what",
        nargs="?",
        choices=("show", "env", "renew", "remove"),
        default="show",
        help="env: print the variables for programs, with the secret of the port",
    )
    command.add_argument(
        "--intercept-port", type=int, default=argparse.SUPPRESS, help="the port of the proxy"
    )
    _add_store(command)


def _add_page(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--port", type=_port, dest="port_of_page", help="its port (4002, or any that is free)")
    add("--no-browser", action="store_true", help="only print the address")
    _add_store(command)


def _add_store(command: argparse.ArgumentParser) -> None:
    command.add_argument("--store", default=argparse.SUPPRESS, help="path of the span store")
    command.add_argument("--config", help="a TOML file with settings; also SPANTAP_CONFIG")


def _add_traces(command: CommandParser) -> None:
    from telemetry.facts import ORDERS  # noqa: PLC0415 - not for `healthcheck`

    command.takes_words = True
    command.usage = (
        "%(prog)s [FLAG ...] [WORD ...]\n"
        "       %(prog)s [FLAG ...] show ID|run:N|run:NAME|conversation:N"
    )
    command.description = (
        "List the newest calls, or those that fit a filter: all of its words must hold. Show one in"
        " full by the beginning of its span id, its trace id or the provider's request id, or the"
        " newest by `show last`; an agent's run as a tree by `show run:N`, the newest"
        " of a launch by `show run:NAME`; or a conversation by its turns by `show conversation:N`."
    )
    add = command.add_argument
    add("--since", metavar="TIME", help="calls since then: 2h, 14:03, today, 2026-01-31")
    add("--sort", choices=ORDERS, help="the largest (slowest, most expensive) first")
    add("--limit", type=_positive, help="how many calls are listed (20)")
    add("--follow", action="store_true", help="keep listing calls as they are recorded")
    add("--json", action="store_true", help="one JSON object a line")
    add(
        "--full",
        action="store_true",
        help="with --json: request, answer and span of each call; with an id: nothing is folded",
    )
    add("--raw", action="store_true", help="with an id: only the bodies of request and answer")
    add("--runs", action="store_true", help="the runs of agents that have such calls, also sorted")
    add("--no-pager", action="store_true", help="no pager for what is longer than the screen")
    add("--run", dest="run_name", metavar="NAME", help="the calls of `spantap run` by that name")
    _add_store(command)


def _add_stats(command: CommandParser) -> None:
    from telemetry.facts import NUMBERED  # noqa: PLC0415 - not for `healthcheck`
    from telemetry.reading.sums import GROUPS  # noqa: PLC0415

    command.takes_words = True
    command.usage = "%(prog)s [FLAG ...] [WORD ...]"
    command.description = (
        "Sum up all calls, or those that fit a filter: how many, their tokens, how long they took,"
        " and their cost."
    )
    groups = [*filter(None, GROUPS), *NUMBERED, "limit"]
    add = command.add_argument
    add("--by", choices=groups, default="", help="a row for the calls of each")
    add("--since", metavar="TIME", help="calls since then: 2h, 14:03, today, 2026-01-31")
    add("--price-as", metavar="MODEL", help="what they would have cost, as gpt-5 or openai/gpt-5")
    add("--limit", type=_positive, help="how many rows (20, and all hours)")
    add("--json", action="store_true", help="one JSON object a line")
    _add_store(command)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 good, 1 a finding, 2 wrong usage or settings."""
    open_closed_streams()
    accept_all_text(sys.stdout, sys.stderr)
    options = vars(build_parser().parse_args(arguments))
    run: Callable[[dict[str, Any]], int] = options.pop("run")
    try:
        status = run(options)
        sys.stdout.flush()
    except ConfigurationError as error:
        words = escape(str(error))
        print(f"spantap: {words}", file=sys.stderr)  # noqa: T201 - the command line's voice
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # `spantap traces | head` is done. Python would say so when it flushes what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


# Commands and settings are imported when they are needed: `healthcheck` runs every few seconds and
# needs only the standard library, and `traces` starts without a server's imports.


def _settings_of(options: dict[str, Any], **ours: Any) -> Settings:
    """Load the settings; `ours` win over every other source."""
    # Otherwise pydantic would search every installed package for plugins, which nobody needs.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from proxy.settings.settings import load_settings  # noqa: PLC0415

    flags = {name: options[name] for name in _SERVE_FLAGS if name in options}
    return load_settings({**flags, **ours}, options.get("config"))


def _find_store(options: dict[str, Any]) -> Path:
    """Find the store; if no other setting is set, without loading the settings."""
    from proxy.settings.store_path import find_store  # noqa: PLC0415

    flags = {"store": options["store"]} if "store" in options else {}
    store = find_store(flags, options.get("config"))
    # Without the upstreams, because only the shell of `spantap serve` has their keys.
    return _settings_of(options, upstreams=()).store if store is None else store


def _check_otel_environment() -> None:
    """Check variables before anything imports the SDK, which would end with a traceback."""
    from telemetry.export.otel_environment import check_otel_environment  # noqa: PLC0415

    check_otel_environment(os.environ)


def _serve(options: dict[str, Any]) -> int:
    _check_otel_environment()
    from proxy.commands.serve.command import run_serve  # noqa: PLC0415

    return run_serve(_settings_of(options), quiet=options["quiet"])


def _run(options: dict[str, Any]) -> int:
    _check_otel_environment()
    from proxy.commands.run import RunOptions, run_run  # noqa: PLC0415

    command = options["command"]
    command = command[1:] if command[:1] == ["--"] else command
    if not command:
        raise ConfigurationError("name a command: spantap run -- COMMAND …")
    run = RunOptions(
        command=tuple(command),
        name=options["name"],
        quiet=options["quiet"],
        flags=not options["no_flags"],
        page=options["opens_page"],
        ignores_urls="upstream" in options,
        intercepts=options["intercept"] or bool(options["intercept_host"]),
        intercept_hosts=tuple(options["intercept_host"]),
    )
    return run_run(_settings_of(options), run)


def _page(options: dict[str, Any]) -> int:
    from proxy.commands.page import run_page  # noqa: PLC0415

    settings = _settings_of(options, upstreams=())
    return run_page(settings, port=options["port_of_page"], opens_browser=not options["no_browser"])


def _env(options: dict[str, Any]) -> int:
    from proxy.commands.env import run_env  # noqa: PLC0415

    return run_env(_settings_of(options, upstreams=()), options["name"])


def _ca(options: dict[str, Any]) -> int:
    from proxy.commands.ca import run_ca  # noqa: PLC0415

    return run_ca(_settings_of(options, upstreams=()), options["what"])


def _demo(_: dict[str, Any]) -> int:
    from proxy.demo.surroundings import forget_surroundings  # noqa: PLC0415

    settings = None
    with contextlib.suppress(ConfigurationError):  # the demo itself follows no setting
        settings = _settings_of({}, upstreams=())
    forget_surroundings(os.environ)
    from proxy.commands.demo import run_demo  # noqa: PLC0415

    return run_demo(settings)


def _upstream(options: dict[str, Any]) -> int:
    from proxy.commands.upstream import run_upstream  # noqa: PLC0415

    return run_upstream(options["port"], options["dialect"])


def _traces(options: dict[str, Any]) -> int:
    words, call_id = _read_traces_words(options)
    if options["no_pager"]:
        os.environ["NO_PAGER"] = "1"
    if options["raw"] and (options["json"] or options["full"]):
        raise ConfigurationError("--raw goes with neither --json nor --full")
    if call_id is not None:
        from proxy.commands.show import ShowOptions, run_show  # noqa: PLC0415

        return run_show(
            _find_store(options),
            call_id,
            ShowOptions(as_json=options["json"], raw=options["raw"], whole=options["full"]),
            out=sys.stdout,
            err=sys.stderr,
        )
    from proxy.commands.traces import TracesOptions, run_traces  # noqa: PLC0415

    return run_traces(
        _find_store(options),
        TracesOptions(
            words=words,
            since=options["since"],
            sort=options["sort"],
            launch=options["run_name"],
            limit=options["limit"],
            follow=options["follow"],
            as_json=options["json"],
            full=options["full"],
            raw=options["raw"],
            runs=options["runs"],
        ),
        out=sys.stdout,
        err=sys.stderr,
    )


def _stats(options: dict[str, Any]) -> int:
    from proxy.commands.stats import StatsOptions, run_stats  # noqa: PLC0415

    def read_prices() -> PriceTable:
        from proxy.settings.spans import SpanSettings, build_price_table  # noqa: PLC0415 - rare

        return build_price_table(SpanSettings.of(_settings_of(options, upstreams=())))

    return run_stats(
        _find_store(options),
        StatsOptions(
            words=options["words"],
            since=options["since"],
            by=options["by"],
            price_as=options["price_as"],
            limit=options["limit"],
            as_json=options["json"],
        ),
        prices=read_prices,
        out=sys.stdout,
        err=sys.stderr,
    )


def _read_traces_words(options: dict[str, Any]) -> tuple[list[str], str | None]:
    """Return the words of a filter, or an id to show; ``list`` before a filter changes nothing.

    Raises:
        ConfigurationError: something cannot be combined with ``show``.
    """
    words: list[str] = options["words"]
    if words[:1] != ["show"]:
        words = words[1:] if words[:1] == ["list"] else words
        for flag, goes_with_list in (("full", options["json"]), ("raw", False)):
            if options[flag] and not goes_with_list and len(words) != 1:
                beside = "with --json, or " if flag == "full" else ""
                raise ConfigurationError(f"--{flag} goes {beside}with the id of one call")
        return words, None
    if len(words) != 2:
        raise ConfigurationError("name one call: spantap traces show ID")
    for flag, name in (
        ("follow", "follow"),
        ("run", "run_name"),
        ("runs", "runs"),
        ("since", "since"),
        ("sort", "sort"),
    ):
        if options[name]:
            raise ConfigurationError(f"--{flag} goes with a list, and not with `show`")
    return [], words[1]


def _check(options: dict[str, Any]) -> int:
    command = options["command"]
    if command := command[1:] if command[:1] == ["--"] else command:
        from proxy.commands.check.program import check_command  # noqa: PLC0415

        return check_command(command)
    _check_otel_environment()
    settings = _settings_of(options)
    if options["catalogue"]:
        from proxy.commands.check.upstreams import list_catalogue  # noqa: PLC0415

        return list_catalogue(settings)
    if options["settings"]:
        from proxy.commands.check.settings import print_settings  # noqa: PLC0415

        return print_settings(settings, os.environ, sys.stdout)
    from proxy.commands.check.command import run_check  # noqa: PLC0415

    return run_check(settings)


def _healthcheck(options: dict[str, Any]) -> int:
    from proxy.commands.healthcheck import find_admin_port, run_healthcheck  # noqa: PLC0415

    return run_healthcheck(*find_admin_port(options))


def _help(options: dict[str, Any]) -> int:
    from proxy.commands.help import run_help  # noqa: PLC0415

    return run_help(options["topic"], options["commands"])


if __name__ == "__main__":
    sys.exit(main())
