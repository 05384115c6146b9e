"""``spantap ca``: shows, renews and removes the certificate authority of ``--intercept-port``.

Its secret is printed only by ``spantap ca env``, and its key never. The exit status is 1 if there
is no authority, and 2 if it cannot be used.
"""

from __future__ import annotations

import os
import shlex
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from proxy.commands.no_call import name_some
from proxy.escape import escape_line
from proxy.interception.kept_authority import (
    authority_folder,
    certificate_path,
    find_authority,
    keep_authority,
    list_hosts,
    load_authority,
    remove_authority,
    renew_authority,
)
from proxy.launches.trust import build_trust
from proxy.own_address import INTERCEPT_HOST
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from proxy.interception.authority import Authority
    from proxy.settings.settings import Settings

_SOON: Final = timedelta(days=30)
"""How long before its end an authority should be renewed."""

_MAKERS: Final = "`spantap serve --intercept-port` makes one, and so does `spantap ca renew`"

_OFF: Final = "off, set SPANTAP_INTERCEPT_PORT or name it with --intercept-port"


def run_ca(settings: Settings, what: str) -> int:
    """Do what is asked for, and return the exit status.

    Raises:
        ConfigurationError: the authority cannot be read or written, or a setting is wrong.
    """
    actions: Mapping[str, Callable[[Settings], int]] = {
        "show": _show,
        "env": _print_environment,
        "renew": _renew,
        "remove": _remove,
    }
    return actions[what](settings)


def explain_limits(authority: Authority, hosts: Iterable[str]) -> Iterator[str]:
    """Say what an authority cannot do any more, or will soon not be able to do."""
    now = datetime.now(UTC)
    end = f"{authority.ends_at:%Y-%m-%d}"
    if authority.ends_at <= now:
        yield f"it ended on {end}, so no call is recorded"
    elif authority.ends_at <= now + _SOON:
        yield f"it ends on {end}, and then no call is recorded"
    if outside := tuple(host for host in sorted(hosts) if not authority.covers(host)):
        yield f"it does not cover {name_some(outside, 'hosts')}, so calls there are not recorded"


def _show(settings: Settings) -> int:
    hosts = list_hosts(settings.intercept_hosts)
    kept = find_authority(settings.store)
    if kept is None:
        _tell(f"there is no authority in {authority_folder(settings.store)}: {_MAKERS}")
        return 1
    authority = load_authority(settings.store, kept)
    days = (authority.ends_at - datetime.now(UTC)).days
    port = settings.intercept_port
    rows = [
        ("certificate", str(certificate_path(settings.store))),
        ("valid until", f"{authority.ends_at:%Y-%m-%d}, {days} days from now"),
        ("SHA-256", authority.fingerprint),
        ("hosts", f"{len(authority.hosts)}"),
        ("port", f"{INTERCEPT_HOST}:{port}" if port else _OFF),
        ("programs", "need the variables that `spantap ca env` prints, with the port's secret"),
    ]
    rows += [("limit", words) for words in explain_limits(authority, hosts)]
    for title, words in rows:
        print(f"{title:<11}  {escape_line(words)}")  # noqa: T201 - what was asked for
    return 0


def _print_environment(settings: Settings) -> int:
    """Print the variables by which programs find the port, and trust it."""
    if not settings.intercept_port:
        raise ConfigurationError(f"spantap ca env: the port is {_OFF}")
    store, folder = settings.store, authority_folder(settings.store)
    kept = keep_authority(store, list_hosts(settings.intercept_hosts))
    url = f"http://spantap:{kept.secret}@{INTERCEPT_HOST}:{settings.intercept_port}"
    try:
        trust = build_trust(os.environ, url, kept.certificate.encode(), folder)
    except OSError as error:
        raise ConfigurationError(
            f"no certificates can be written to {folder}: {error.strerror}"
        ) from error
    for name, text in trust.items():
        print(f"export {name}={shlex.quote(text)}")  # noqa: T201 - what was asked for
    return 0


def _renew(settings: Settings) -> int:
    renew_authority(settings.store, list_hosts(settings.intercept_hosts))
    _tell(
        "a new authority is made; the secret is the one from before, if there was one. Restart the"
        " proxy, and then the programs that use it, because they trust the old one until they end"
    )
    return _show(settings)


def _remove(settings: Settings) -> int:
    if not remove_authority(settings.store):
        _tell(f"there is no authority in {authority_folder(settings.store)}")
        return 1
    _tell(
        "the authority and its secret are removed. A proxy that runs has them until it ends, and"
        " programs that were given them trust the authority until they end"
    )
    return 0


def _tell(sentence: str) -> None:
    print(f"spantap ca: {escape_line(sentence)}", file=sys.stderr)  # noqa: T201
