"""The upstreams: which one a path goes to, and with which target.

``docs/contract/promises.md#routes`` says which upstream that is. The client's raw path and query
are appended to the upstream's URL, and not normalised (R1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from yarl import URL

from codec.usage_option import UsagePolicy
from proxy.upstream.catalogue import read_catalogue
from proxy.upstream.owners import BASE_URLS, EXAMPLES, Owner, complete_target, find_owner
from proxy.upstream_entry import (
    KEY_HEADERS,
    KeyHeader,
    UpstreamEntry,
    WebSocketPolicy,
    check_url,
    read_key,
)
from telemetry.provider import find_provider

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """A place where requests go.

    Attributes:
        name: its name, for people and spans.
        origin: scheme, host and port.
        base_path: the raw path of the configured URL, without a final slash.
        prefix: the path prefix that selects it, without a final slash.
        websockets: what becomes of requests for a WebSocket; ``None`` to do as with others.
        provider: the value of ``llm.provider``; ``None`` to infer it from the host.
        credentials: what replaces the client's keys if we hold the key, in the form that
            :class:`proxy.headers.RequestChanges` takes; never shown.
    """

    name: str
    origin: URL
    base_path: str = ""
    prefix: str = ""
    usage: UsagePolicy = UsagePolicy.ALWAYS
    websockets: WebSocketPolicy | None = None
    provider: str | None = None
    credentials: Mapping[bytes, tuple[bytes, bytes] | None] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def replaces_query_key(self) -> bool:
        """Whether the key that we hold also replaces a ``key`` in the query, as Google's does."""
        return self.credentials.get(b"x-goog-api-key") is not None

    @cached_property
    def host_header(self) -> bytes:
        """The value of ``Host``; it has the port only if that is not the scheme's default."""
        host = self.origin.host_port_subcomponent
        if host is None:
            raise AssertionError("check_url lets no URL without a host pass")
        return host.encode("ascii")

    def join(self, target: str) -> str:
        """Make the target at the upstream from a client's target whose prefix was stripped.

        If the upstream's path ends in ``/v1``, and the target begins with that or with all of it,
        this is there only once: Groq's own client sends ``/openai/v1/…``, others ``/v1/…``.

        >>> upstream = Upstream(name="a", origin=URL("http://h"), base_path="/openai/v1")
        >>> upstream.join("/v1/models?x=1"), upstream.join("/openai/v1/models")
        ('/openai/v1/models?x=1', '/openai/v1/models')
        """
        if target == "*":
            return target
        path = target.partition("?")[0]
        if self.base_path.endswith("/v1"):
            for once in (self.base_path, "/v1"):
                if f"{path}/".startswith(f"{once}/"):
                    return self.base_path + target[len(once) :]
        return self.base_path + target

    def strip(self, target: str) -> str:
        """Make the target at the upstream from a client's target that begins with the prefix.

        If the prefix is the whole path, the upstream's path is whole as well: no slash comes behind
        it.

        >>> Upstream(name="a", origin=URL("http://h"), base_path="/x", prefix="/p").strip("/p?x=1")
        '/x?x=1'
        """
        rest = target[len(self.prefix) :]
        return self.join(rest if rest[:1] == "/" or self.base_path else f"/{rest}")

    def describe(self) -> str:
        """Say where a call to the provider's own API goes, an example of a path."""
        path = EXAMPLES[self._find_owner()]
        asked = self.prefix if self.prefix.endswith(path) else self.prefix + path
        return f"{asked} goes to {self.origin}{self.strip(asked)}"

    def _find_owner(self) -> Owner:
        """Find whose API it has; that of OpenAI stands for all that are alike."""
        for owner, url in BASE_URLS.items():
            if str(self.origin) == url and not self.base_path:
                return owner
        provider = find_provider(self.provider, self.origin.host)
        if provider == Owner.GOOGLE.value and self.base_path:
            return Owner.OPENAI  # Google has OpenAI's API under a path
        return next((owner for owner in Owner if owner.value == provider), Owner.OPENAI)


class Route(NamedTuple):
    """An upstream and the target there."""

    upstream: Upstream
    target: str


class UpstreamTable:
    """The table of all upstreams, and the choice among them.

    The longest prefix that matches whole segments of the path wins, and is stripped. A path without
    such a prefix goes to the default upstream or, if none is set, to the owner of its API.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        *,
        owners: Mapping[Owner, Upstream] | None = None,
        catalogue: Sequence[Upstream] = (),
        usage: UsagePolicy = UsagePolicy.ALWAYS,
    ) -> None:
        self._usage = usage
        self._upstreams = _order(upstreams)
        self._by_prefix = _order([*upstreams, *catalogue])
        self.owners = owners or {}
        self.catalogue = tuple(catalogue)

    def __iter__(self) -> Iterator[Upstream]:
        """Iterate over the upstreams of the settings, then the owners, but not the catalogue."""
        yield from self._upstreams
        yield from self.owners.values()

    def describe(self) -> Iterator[str]:
        """Say for each where a path goes, and how many the catalogue adds."""
        yield from (upstream.describe() for upstream in self)
        if self.catalogue:
            yield (
                f"{len(self.catalogue)} providers have a prefix each, such as "
                f"{self.catalogue[0].prefix}: `spantap check --catalogue` lists them"
            )

    @classmethod
    def from_config(
        cls,
        default_url: str | None,
        tables: Sequence[UpstreamEntry],
        usage: UsagePolicy,
        *,
        catalogue: bool | None = None,
        owners: Iterable[Owner] = Owner,
    ) -> UpstreamTable:
        """Build the table from settings.

        Args:
            default_url: where other paths go; ``None`` if they go to their owners.
            tables: the user's upstreams.
            usage: the policy of upstreams that do not name one.
            catalogue: whether the catalogue's prefixes are there. ``None`` means only if there is
                no default upstream, because that may itself have a path such as ``/openai/v1``
                (Groq).
            owners: the owners that may be reached without a setting.

        Raises:
            ValueError: a URL or a key of ours is wrong, or two tables share a name or a prefix.
        """
        upstreams = [_build(table, usage) for table in tables]
        has_default = any(upstream.prefix == "" for upstream in upstreams)
        if default_url is not None and not has_default:
            upstreams.append(_build(UpstreamEntry(name="default", url=default_url), usage))
            has_default = True
        for what in ("name", "prefix"):
            values = [getattr(upstream, what) for upstream in upstreams]
            doubled = next((value for value in values if values.count(value) > 1), None)
            if doubled is not None:
                raise ValueError(f"two upstreams have the {what} {doubled or '/'!r}")
        by_owner = {} if has_default else {owner: _build_owner(owner, usage) for owner in owners}
        shows = not has_default if catalogue is None else catalogue
        rows = _read_rows(upstreams, usage) if shows else ()
        return cls(upstreams, owners=by_owner, catalogue=rows, usage=usage)

    def route(self, target: str, asker: Owner = Owner.OPENAI) -> Route:
        """Find the upstream, and the target there, for a client's origin-form target or ``*``.

        Args:
            target: the client's target.
            asker: the provider whose client asks; it decides about a path of several owners.
        """
        for upstream in self._by_prefix:
            prefix = upstream.prefix
            if not prefix:
                return Route(upstream, upstream.join(target))
            if target.startswith(prefix) and target[len(prefix) : len(prefix) + 1] in _BOUNDARIES:
                return Route(upstream, upstream.strip(target))
        name = find_owner(target, asker)
        owner = self.owners.get(name) or self.owners[Owner.OPENAI]
        return Route(owner, owner.join(complete_target(target, name)))

    def route_to(self, url: str, target: str) -> Route:
        """Find the upstream of a base URL that came in a pass, and the target there.

        Raises:
            ValueError: it is not a base URL.
        """
        upstream = _build(UpstreamEntry(name=URL(url).host or url, url=url), self._usage)
        return Route(upstream, upstream.base_path + target)


_BOUNDARIES = frozenset({"", "/", "?"})


def _order(upstreams: Iterable[Upstream]) -> tuple[Upstream, ...]:
    """Order upstreams so that the first whose prefix matches is the one with the longest."""
    return tuple(sorted(upstreams, key=lambda u: len(u.prefix), reverse=True))


def _build_owner(owner: Owner, usage: UsagePolicy) -> Upstream:
    entry = UpstreamEntry(name=owner.value, url=BASE_URLS[owner], provider=owner.provider)
    return _build(entry, usage)


def _read_rows(upstreams: Sequence[Upstream], usage: UsagePolicy) -> tuple[Upstream, ...]:
    """Build the catalogue's upstreams, except those whose name or prefix a table has."""
    taken = {upstream.name for upstream in upstreams} | {upstream.prefix for upstream in upstreams}
    return tuple(
        _build(UpstreamEntry(name=row.name, url=row.url, prefix=f"/{row.name}"), usage)
        for row in read_catalogue()
        if taken.isdisjoint({row.name, f"/{row.name}"})
    )


def _build(config: UpstreamEntry, usage: UsagePolicy) -> Upstream:
    url = URL(check_url(config.url), encoded=True)
    return Upstream(
        name=config.name,
        origin=url.origin(),
        base_path=url.raw_path.rstrip("/"),
        prefix=config.prefix.rstrip("/"),
        usage=config.usage or usage,
        websockets=config.websockets,
        provider=config.provider,
        credentials=_credentials(config, url.host),
    )


_KEY_HEADERS_OF = {
    "anthropic": KeyHeader.X_API_KEY,
    "azure": KeyHeader.API_KEY,
    "google": KeyHeader.X_GOOG_API_KEY,
}
"""The header of the key by ``llm.provider``; all others, also Vertex AI, want a bearer token."""


def _credentials(
    config: UpstreamEntry, host: str | None
) -> dict[bytes, tuple[bytes, bytes] | None]:
    """Put our key into the one header that its provider wants; the client's keys are not sent."""
    if config.api_key_env is None:
        return {}
    wanted = config.api_key_header
    if wanted is None and not (host or "").endswith("aiplatform.googleapis.com"):
        wanted = _KEY_HEADERS_OF.get(find_provider(config.provider, host) or "")
    name = (wanted or KeyHeader.AUTHORIZATION).value.encode("ascii")
    key = read_key(config.api_key_env)
    value = b"Bearer " + key if name == b"authorization" else key
    spelled = b"Authorization" if name == b"authorization" else name
    return {**dict.fromkeys(KEY_HEADERS), name: (spelled, value)}
