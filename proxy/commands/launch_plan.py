"""What ``spantap run`` is asked for, what it starts, and what both ways to prepare it need."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from proxy.commands.no_call import NoCall
from proxy.launches.variables import read_variables
from proxy.prefixes import TO_PREFIX
from proxy.processes.launch_channel import digest_privacy
from proxy.settings.spans import hand_over, hides_content
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from proxy.launches.bases import Bases
    from proxy.launches.environment import Surroundings
    from proxy.launches.joining import Membership
    from proxy.settings.settings import Settings


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``spantap run``.

    Attributes:
        name: the name of the launch; empty for the name of the program.
        quiet: only errors are printed.
        flags: known tools get the flags and variables that they need.
        page: the page is opened before the command starts.
        ignores_urls: ``--upstream`` is given, so base URLs that are set already do not count.
        intercepts: calls come by interception, not by base URLs.
        intercept_hosts: hosts that are opened besides those of the list.
    """

    command: tuple[str, ...]
    name: str = ""
    quiet: bool = False
    flags: bool = True
    page: bool = False
    ignores_urls: bool = False
    intercepts: bool = False
    intercept_hosts: tuple[str, ...] = ()


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A command that is about to be started, and sentences about it for the user.

    Attributes:
        no_call: what to say if it makes no call.
    """

    command: tuple[str, ...]
    environ: dict[str, str]
    sentences: tuple[str, ...]
    no_call: NoCall


def hand_over_for_run(settings: Settings) -> bytes:
    """Encode the settings of a proxy that we start: on free ports, only for this machine."""
    ours = {"host": "127.0.0.1", "port": 0, "admin_host": "127.0.0.1", "admin_port": 0}
    ours |= {"page": False}  # it would end with the command, before the user looks at the calls
    ours |= {"tls_cert": None, "tls_key": None, "intercept_port": 0}
    return hand_over(settings.replaced("spantap run", ours), os.environ)


def check_suits(settings: Settings, membership: Membership, options: RunOptions) -> None:
    """Check that a running proxy does what the options and settings of this launch say.

    Raises:
        ConfigurationError: it does not.
    """
    if membership.own is not None:
        return
    joined = membership.joined
    where = f"a proxy (process {joined.pid}) runs already on {settings.store}"
    mend = "end it, or name another store with --store"
    if options.ignores_urls:
        raise ConfigurationError(f"{where}, so its upstreams hold and not --upstream: {mend}")
    is_alike = joined.privacy == digest_privacy(hand_over_for_run(settings), os.environ)
    if hides_content(settings, os.environ) and not is_alike:
        raise ConfigurationError(
            f"{where}, and it does not hide from spans what must be hidden here "
            f"(SPANTAP_CONTENT, SPANTAP_REDACT, OPENINFERENCE_HIDE_*): {mend}"
        )


def describe_proxy(membership: Membership) -> Sequence[str]:
    """Say that the proxy runs already, if it does."""
    if membership.own is not None:
        return ()
    pid = membership.joined.pid
    return (f"through the proxy that runs already (process {pid}), with its settings",)


def describe_urls(
    around: Surroundings, bases: Bases, urls: Mapping[str, str], unusable: Iterable[str]
) -> Iterator[str]:
    """Say where the calls of base URLs that are set continue to, and which are left."""
    names: dict[str, list[str]] = {}
    for name, url in urls.items():
        is_ours = TO_PREFIX in url  # of a launch around this one
        if name not in around.implied and bases.is_elsewhere(name) and not is_ours:
            names.setdefault(url, []).append(name)
    for url, them in names.items():
        yield f"calls of {' and '.join(them)} continue to {url}"
    for name in unusable:
        if name not in around.implied:
            why = around.unusable[name]
            yield f"{name} is left as it is, and its calls are not recorded: its base URL {why}"


def list_urls(around: Surroundings) -> dict[str, str]:
    """List the base URLs that are set, and the program's own that a variable has."""
    variables = {row.name for row in read_variables()}
    own = {name: url for name, url in around.tool_urls.items() if name in variables}
    return around.set_urls | own
