"""The upstreams: which one a path belongs to, and what target it gets there.

Rules (``design.md`` section 5):

1. The longest prefix that matches whole path segments wins and is stripped; what no table takes
   goes to the default upstream.
2. The client's raw path and query are appended to the upstream's URL, not normalised (R1).
3. Where that URL ends in ``/v1`` and the path begins with ``/v1/``, they are joined once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from yarl import URL

from codec.rewrite import UsagePolicy
from proxy.upstream_entry import UpstreamEntry, check_url, read_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ("Route", "Upstream", "UpstreamTable")


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """A place where requests go.

    Attributes:
        name: for people and spans.
        origin: scheme, host and port.
        base_path: path of the configured URL without a final slash, raw.
        prefix: path prefix that selects it, without a final slash.
        provider: value for ``llm.provider``, ``None`` to infer it from the host.
        credentials: what replaces the client's ``Authorization`` where we hold the key, as
            :class:`proxy.headers.RequestChanges` takes it; never shown.
    """

    name: str
    origin: URL
    base_path: str = ""
    prefix: str = ""
    usage: UsagePolicy = UsagePolicy.ALWAYS
    provider: str | None = None
    credentials: Mapping[bytes, tuple[bytes, bytes]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @cached_property
    def host_header(self) -> bytes:
        """The ``Host`` value: the port only where it is not the scheme's own."""
        host = self.origin.host_port_subcomponent
        if host is None:
            raise AssertionError("check_url lets no URL without a host pass")
        return host.encode("ascii")

    def join(self, target: str) -> str:
        """The target at the upstream for a client's target whose prefix was stripped (rule 3).

        >>> Upstream(name="a", origin=URL("http://h"), base_path="/v1").join("/v1/models?x=1")
        '/v1/models?x=1'
        """
        if target == "*":
            return target
        path = target.partition("?")[0]
        if self.base_path.endswith("/v1") and (path == "/v1" or path.startswith("/v1/")):
            return self.base_path + target[len("/v1") :]
        return self.base_path + target


class Route(NamedTuple):
    """An upstream and the target there."""

    upstream: Upstream
    target: str


class UpstreamTable:
    """All upstreams, and the choice among them (rule 1)."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        self._upstreams = tuple(sorted(upstreams, key=lambda u: len(u.prefix), reverse=True))

    def __iter__(self) -> Iterator[Upstream]:
        return iter(self._upstreams)

    @classmethod
    def from_config(
        cls,
        default_url: str,
        tables: Sequence[UpstreamEntry],
        usage: UsagePolicy,
    ) -> UpstreamTable:
        """Build the table from settings.

        Raises:
            ValueError: a URL or a held key is wrong, or two tables share a name or a prefix.
        """
        upstreams = [_build(table, usage) for table in tables]
        if not any(upstream.prefix == "" for upstream in upstreams):
            upstreams.append(_build(UpstreamEntry(name="default", url=default_url), usage))
        for what in ("name", "prefix"):
            values = [getattr(upstream, what) for upstream in upstreams]
            doubled = next((value for value in values if values.count(value) > 1), None)
            if doubled is not None:
                raise ValueError(f"two upstreams have the {what} {doubled or '/'!r}")
        return cls(upstreams)

    def route(self, target: str) -> Route:
        """The upstream and target for a client's origin-form target or ``*``."""
        for upstream in self._upstreams:
            prefix = upstream.prefix
            if not prefix:
                return Route(upstream, upstream.join(target))
            if target.startswith(prefix) and target[len(prefix) : len(prefix) + 1] in _BOUNDARIES:
                rest = target[len(prefix) :]
                return Route(upstream, upstream.join(rest if rest[:1] == "/" else "/" + rest))
        raise AssertionError("from_config always adds an upstream without a prefix")


_BOUNDARIES = frozenset({"", "/", "?"})


def _build(config: UpstreamEntry, usage: UsagePolicy) -> Upstream:
    url = URL(check_url(config.url), encoded=True)
    return Upstream(
        name=config.name,
        origin=url.origin(),
        base_path=url.raw_path.rstrip("/"),
        prefix=config.prefix.rstrip("/"),
        usage=config.usage or usage,
        provider=config.provider,
        credentials=_credentials(config.api_key_env),
    )


def _credentials(variable: str | None) -> dict[bytes, tuple[bytes, bytes]]:
    if variable is None:
        return {}
    return {b"authorization": (b"Authorization", b"Bearer " + read_key(variable))}
