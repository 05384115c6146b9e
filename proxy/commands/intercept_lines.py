"""What ``spantap run --intercept`` says at its end: the hosts that were opened or tunnelled."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from proxy.commands.no_call import name_some
from proxy.interception.interception import USUAL, TunnelReason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy.interception.interception import InterceptReport
    from proxy.processes.intercept_orders import EndedPort, Staying


def describe_interception(ended: EndedPort, proxy_pid: int) -> Iterator[str]:
    """Describe what an interception did, a sentence each."""
    report = ended.report
    if report.opened:
        yield f"opened: {_count(report.opened)}"
    tunnels = Counter[str]()
    for row in report.tunnelled:
        tunnels[row.host] += row.tunnel_count
    if tunnels:
        yield f"tunnelled: {_count(tunnels)}"
    yield from _describe_failures(report)
    if ended.staying:
        yield (
            f"still running: {_name(ended.staying)}. The way to the network from there leads "
            f"through spantap (process {proxy_pid}), which stays meanwhile, for a day at most. "
            "Calls from there are no longer recorded"
        )
    if ended.earlier:
        yield (
            f"still running since an earlier run: {_name(ended.earlier)}. Calls that the command "
            "made from there are not recorded. End that first"
        )


def _describe_failures(report: InterceptReport) -> Iterator[str]:
    """Say for which hosts there should have been calls, and why there are none."""
    unusual = {row.host: row.reason for row in report.tunnelled if row.reason not in USUAL}
    for host in dict.fromkeys((*report.distrusted, *unusual)):
        reason = unusual.get(host)
        failed = report.distrusted.get(host, 0)
        if reason in (None, TunnelReason.DISTRUST):
            times = "connection" if failed == 1 else "connections"
            yield (
                f"the command did not trust the certificate for {host}: {failed} {times} failed"
                f"{', then it was tunnelled' if reason is not None else ''}. Leave out "
                "--intercept for it, or see `spantap help interception`"
            )
        else:
            yield f"calls to {host} were not recorded, because {reason}"


def _name(processes: tuple[Staying, ...]) -> str:
    named = tuple(f"process {process.pid} ({process.name})" for process in processes)
    return name_some(named, "processes")


def _count(hosts: Mapping[str, int]) -> str:
    ranked = sorted(hosts.items(), key=lambda row: (-row[1], row[0]))
    return name_some(tuple(f"{host} ({count:,})" for host, count in ranked), "hosts")
