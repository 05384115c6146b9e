"""What a launch may intercept: its hosts, its authority, and the base URLs that need the proxy.

Interception changes nothing that a program sends, so base URLs stay as the user has them. Only one
that no interception can open, because it is plain HTTP or has another port, gets a path of the
proxy, as in a launch without interception.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
from yarl import URL

from proxy.interception.hosts import check_host, check_hosts, read_hosts
from proxy.interception.interception import Interception, TunnelReason
from proxy.launches.variables import find_set_urls, read_variables
from proxy.upstream.forward_proxy import ForwardProxy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from proxy.launches.bases import Bases
    from proxy.launches.environment import Surroundings
    from proxy.launches.programs import Program

_SECRET_BYTES = 24


class InterceptPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be intercepted.

    Attributes:
        hosts: the names that are opened.
        tunnelled: those of them that are not, and why.
        unopenable: base URLs that are set and cannot be opened, by variable.
        excluded: hosts of the list that the user's ``NO_PROXY`` names.
    """

    hosts: frozenset[str]
    tunnelled: dict[str, TunnelReason] = {}
    unopenable: dict[str, str] = {}
    excluded: tuple[str, ...] = ()


def plan_interception(
    named: Iterable[str],
    environ: Mapping[str, str],
    around: Surroundings,
    program: Program | None,
) -> InterceptPlan:
    """Find out what a launch may open.

    Args:
        named: the hosts that the user adds.
        environ: the command's variables.
        around: its base URLs.
        program: what is known of its program.

    Raises:
        ConfigurationError: a host that the user adds may not be opened.
    """
    hosts = {*read_hosts(), *check_hosts(named, "--intercept-host")}
    unopenable = {}
    for name, url in find_set_urls(environ).items():
        if (host := _find_openable(url)) is not None:
            hosts.add(host)
        elif name in around.set_urls:
            unopenable[name] = around.set_urls[name]
    shown = _find_certified(program, environ) & hosts
    return InterceptPlan(
        hosts=frozenset(hosts),
        tunnelled=dict.fromkeys(sorted(shown), TunnelReason.CLIENT_CERTIFICATE),
        unopenable=unopenable,
        excluded=tuple(_find_excluded(environ, hosts)),
    )


def make_interception(plan: InterceptPlan, label: str) -> Interception:
    """Make the secret and the authority of a launch."""
    from proxy.interception.authority import make_authority  # noqa: PLC0415 - it takes 0.1 s

    certificate, key = make_authority(plan.hosts)
    return Interception(
        secret=secrets.token_urlsafe(_SECRET_BYTES),
        ca_certificate=certificate,
        ca_key=key,
        hosts=plan.hosts,
        label=label,
        tunnelled=plan.tunnelled,
    )


def fit_unopenable(plan: InterceptPlan, environ: Mapping[str, str], bases: Bases) -> dict[str, str]:
    """Return the base URLs to set: those that interception cannot open."""
    fitted = {name: url for name in plan.unopenable if (url := bases.find(name)) is not None}
    said = find_set_urls(environ)
    for row in read_variables():
        if row.is_plain and row.name not in said and row.path is not None:
            fitted[row.name] = bases.root + row.path
    return fitted


def _find_openable(url: str) -> str | None:
    """Find the host of a base URL, if its TLS can be opened."""
    try:
        parts = urlsplit(url)
        if parts.scheme != "https" or parts.port not in (None, 443):
            return None
        return check_host(parts.hostname or "")
    except ValueError:
        return None


def _find_certified(program: Program | None, environ: Mapping[str, str]) -> frozenset[str]:
    """Find the hosts to which a program shows a certificate: all that it calls."""
    if program is None or not environ.get(program.client_certificate or "", ""):
        return frozenset()
    urls = [environ[name] for name in program.reads if environ.get(name)]
    return frozenset((*program.hosts, *filter(None, map(_find_openable, urls))))


def _find_excluded(environ: Mapping[str, str], hosts: Iterable[str]) -> Iterator[str]:
    exceptions = environ.get("no_proxy") or environ.get("NO_PROXY", "")
    ours = ForwardProxy({"https": "http://127.0.0.1", "no": exceptions})
    yield from (host for host in sorted(hosts) if ours.find(URL(f"https://{host}")) is None)
