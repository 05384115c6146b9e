"""``spantap help``: prints the pages of the documentation that the installation brings.

A wheel has them below ``proxy/help`` (``pyproject.toml`` puts them there); a checkout has them in
``docs``. So a message can name a page wherever spantap runs: ``spantap help settings``.
"""

from __future__ import annotations

import sys
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markdown import Markdown

from proxy.commands.console import open_console, paging
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

TOPICS = {
    "run": "one command, nothing configured: `spantap run` and `env`",
    "terminal": "finding a call: `traces`, its filters, `stats`, `store`",
    "interception": "programs without a base URL",
    "websockets": "Realtime, Live, Responses over a WebSocket",
    "page": "the page in a browser",
    "settings": "every variable, flag and table of the file; privacy, cost, sampling",
    "backends": "where spans go: the OTEL_* variables",
    "spans": "what is on a span",
    "apis": "the APIs, and what each puts there",
    "conversations": "conversations, agents' runs and their tools",
    "troubleshooting": "begins with: no traces arrive",
    "operations": "log lines, `check`, exit statuses",
    "reliability": "how failures are treated, what differs on the wire, limits",
    "metrics": "metrics of the admin port",
    "container": "the container image",
    "compose": "Docker Compose",
    "kubernetes": "Kubernetes, and the Helm chart",
    "scaling": "workers, instances, a reverse proxy in front",
    "demo-upstream": "the demo upstream, which answers as a question directs",
    "codec": "the codec as a library; the words for what is odd about a call",
}
"""The pages by name, with what each is about."""

_FOLDERS = (Path(__file__).parents[1] / "help", Path(__file__).parents[2] / "docs")
"""Where the pages are: in a wheel, and in a checkout."""


def run_help(topic: str | None, commands: Sequence[str] = (), out: TextIO | None = None) -> int:
    """Print a page, or the list of pages; return the exit status.

    Args:
        topic: the page's name; without one, the list is printed.
        commands: names of the program's commands, which a topic may be mistaken for.
        out: where to print.

    Raises:
        ConfigurationError: there is no such page.
    """
    console = open_console(out or sys.stdout)
    if topic is None:
        width = max(map(len, TOPICS))
        console.out("Pages of the documentation; `spantap help TOPIC` prints one:\n")
        for name, about in TOPICS.items():
            console.out(f"  {name:<{width}}  {about}")
        console.out("\n`spantap COMMAND --help` lists the flags of a command.")
        return 0
    text = read_page(topic, commands)
    if not console.is_terminal:
        console.out(text, end="")
        return 0
    with paging(console):
        console.print(Markdown(text, hyperlinks=False))
    return 0


def read_page(topic: str, commands: Sequence[str] = ()) -> str:
    """Read the Markdown of a page.

    Raises:
        ConfigurationError: there is no such page, or this installation has none.
    """
    name = topic.lower().removesuffix(".md")
    if name not in TOPICS:
        if name in commands:
            advice = f"`spantap {name} --help` lists the flags of that command"
        elif nearest := get_close_matches(name, TOPICS, n=1):
            advice = f"did you mean {nearest[0]}?"
        else:
            advice = "`spantap help` lists the pages"
        raise ConfigurationError(f"no page is named {topic!r}; {advice}")
    for folder in _FOLDERS:
        path = folder / f"{name}.md"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise ConfigurationError("this installation came without its pages")
