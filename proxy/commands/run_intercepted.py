"""Prepares a command whose calls come by interception: a proxy for HTTPS, and its certificates."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.commands.launch_plan import (
    Prepared,
    check_suits,
    describe_proxy,
    describe_urls,
    hand_over_for_run,
)
from proxy.commands.no_call import NoCall, name_some
from proxy.interception.hosts import check_hosts
from proxy.launches.bases import Bases
from proxy.launches.environment import look_around
from proxy.launches.intercepting import fit_unopenable, make_interception, plan_interception
from proxy.launches.joining import join_proxy
from proxy.launches.trust import build_trust
from proxy.launches.variables import fit_no_proxy
from proxy.processes.launch_channel import Join
from proxy.settings.variable_names import describe_unknown_names
from telemetry.errors import ConfigurationError
from telemetry.launch_labels import build_label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.commands.launch_plan import RunOptions
    from proxy.interception.interception import Interception
    from proxy.launches.intercepting import InterceptPlan
    from proxy.launches.joining import Membership
    from proxy.launches.resolving import Resolved
    from proxy.settings.settings import Settings


def prepare_intercepted(
    settings: Settings, options: RunOptions, launch: tuple[str, str], resolved: Resolved
) -> tuple[Membership, Prepared]:
    """Join a proxy that intercepts, and prepare the command for it.

    Raises:
        ConfigurationError: there is no proxy, a running one does not suit, or a host may not be
            opened.
    """
    if options.ignores_urls:
        raise ConfigurationError(
            "--intercept relays each call to the host that it is for: leave out --upstream"
        )
    before = dict(os.environ)
    around = look_around(before, (settings.host, settings.port))
    assigned = before | resolved.assigned
    named = check_hosts(settings.intercept_hosts, "setting 'intercept_hosts'")
    plan = plan_interception((*named, *options.intercept_hosts), assigned, around, resolved.program)
    interception = make_interception(plan, build_label(*launch))
    asked = Join(urls=plan.unopenable, interception=interception)
    membership = join_proxy(settings.store, hand_over_for_run(settings), asked)
    check_suits(settings, membership, options)
    bases = Bases.of(membership.joined, *launch)
    base_urls = fit_unopenable(plan, before, bases)
    reached = before | dict(fit_no_proxy(before, bases.host))
    trust = _build_trust(membership, interception, reached)
    sentences = (
        *describe_unknown_names(before, type(settings).model_fields),
        *describe_proxy(membership),
        *describe_urls(around, bases, plan.unopenable, ()),
        *_describe(resolved, plan, [*base_urls, *trust]),
    )
    return membership, Prepared(
        command=options.command,
        environ=reached | base_urls | trust,
        sentences=sentences,
        no_call=NoCall(
            program=resolved.name,
            given=("HTTPS_PROXY", "the certificates for it"),
            advice="see `spantap help interception`: some programs heed no HTTPS_PROXY, or trust "
            "only their own certificates",
        ),
    )


def _build_trust(
    membership: Membership, interception: Interception, environ: dict[str, str]
) -> dict[str, str]:
    """Build the variables by which the command finds its port, and trusts it.

    Raises:
        ConfigurationError: the proxy has opened no port, or the files cannot be written.
    """
    joined = membership.joined
    opened = joined.intercept
    if opened is None:
        raise ConfigurationError(
            joined.error
            or f"the proxy (process {joined.pid}) is of an earlier version, which cannot "
            "intercept: end it, or name another store with --store"
        )
    url = f"http://spantap:{interception.secret}@127.0.0.1:{opened.port}"
    try:
        return build_trust(environ, url, interception.ca_certificate, Path(opened.folder))
    except OSError as error:
        raise ConfigurationError(
            f"--intercept: no certificates can be written to {opened.folder}: {error.strerror}"
        ) from error


def _describe(resolved: Resolved, plan: InterceptPlan, names: list[str]) -> Iterator[str]:
    """Say what is set, and which calls will not be recorded although the list has their host."""
    yield (
        f"--intercept opens the TLS of {len(plan.hosts) - len(plan.tunnelled)} hosts of models for "
        f"{resolved.name}, and sets {', '.join(names)} (`spantap help interception`)"
    )
    if plan.excluded:
        yield (
            f"calls to {name_some(plan.excluded, 'hosts')} are not recorded, because of your "
            "NO_PROXY"
        )
    for host, reason in plan.tunnelled.items():
        yield f"calls to {host} are not recorded, because {reason}"
