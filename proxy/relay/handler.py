"""The traffic port's one handler: observes calls of the APIs that it knows, relays all others.

If inbound keys are set, a request without one is refused on every path, before anything else is
done with it and without reading its body. If there are none, a web page of another site is refused
the upstreams whose key we hold (:mod:`proxy.relay.foreign_pages`). So is a request that Amazon
would refuse because of the host for which it is signed (:mod:`proxy.relay.signed_hosts`).
"""

from __future__ import annotations

import asyncio
import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codec.apis.table import find_api, find_session_api
from proxy.downstream.inbound_keys import drop_protocol_keys, drop_query_keys
from proxy.errors import GatewayError
from proxy.headers import RequestChanges, request_headers
from proxy.relay.body_scan import BodyScans
from proxy.relay.exchange import ExchangeRules, ObservedExchange
from proxy.relay.foreign_pages import is_of_foreign_page
from proxy.relay.own_prefixes import strip_own_prefixes
from proxy.relay.signed_hosts import explain_signed_host
from proxy.relay.tee import relay_answer
from proxy.relay.web_socket import WebSocketCounts, join_websocket
from proxy.request_body import BodyBudget, BodyShare
from proxy.upstream.owners import Owner, find_asker
from proxy.upstream.passes import read_pass
from proxy.upstream.request import UpstreamRequest
from proxy.upstream_entry import WebSocketPolicy
from telemetry.observing.encryption import OWN_CIPHER

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.apis.api import Api
    from proxy.downstream.downstream import Answered, Downstream
    from proxy.downstream.inbound_keys import InboundKeys
    from proxy.headers import Head
    from proxy.relay.landing import Landing
    from proxy.relay.open_exchanges import OpenExchange, OpenExchanges
    from proxy.relay.rejections import Rejections
    from proxy.relay.tap import Tap, TapSource
    from proxy.upstream.client import UpstreamClient
    from proxy.upstream.response import UpstreamResponse
    from proxy.upstream.routes import Route, UpstreamTable
    from telemetry.identity import SpanIdentitySource
    from telemetry.observing.encryption import Cipher
    from telemetry.span_identity import SpanIdentity

_log = logging.getLogger("spantap.handler")

MAX_WAYS = 128
"""How many targets are remembered. Each is at most as large as a head: 8 MB at worst."""

_UNKNOWN_URL = (
    "This base URL is not from this spantap, perhaps from one that has ended: start again with "
    '`spantap run`, or with eval "$(spantap env)".'
)

_NO_WEBSOCKET = (
    "spantap relays no WebSocket to this upstream (SPANTAP_WEBSOCKETS). Send the same as a POST "
    "request, or connect to the provider directly."
)

_NO_KEY = (
    "This proxy accepts calls only with one of its inbound keys. Send it as the API key, or in the "
    "header x-spantap-key beside the provider's key."
)

_FOREIGN_PAGE = (
    "This proxy holds the key of this upstream, and lets no web page of another site spend it. If "
    "the page is yours, set SPANTAP_INBOUND_KEYS, and let the page send one of them as its API key."
)


@dataclass(kw_only=True, eq=False, repr=False)
class Handler:
    """Called once for each valid request; all its state is in the objects below.

    Attributes:
        open_exchanges: the exchanges that a shutdown waits for.
        inbound_keys: a request must have one of these keys; ``None`` lets everybody in.
        on_refused: called with a reason for each request that is answered here and not relayed.
        on_upgrade_refused: called with the target of each request for a WebSocket that is refused.
        websockets: what becomes of such requests, at upstreams that do not say it.
        on_relayed: called with the status of each answer to a call that is relayed unobserved; if
            the upstream gives none, with that of our answer.
        cipher: encrypts the passes to base URLs.
        landing: the page of ``/``; ``None`` if that path is an upstream's.
        bodies: the memory that observed calls use for their requests.
        web_socket_counts: what passes on WebSockets.
    """

    upstreams: UpstreamTable
    client: UpstreamClient
    taps: TapSource
    identities: SpanIdentitySource
    rejections: Rejections
    rules: ExchangeRules
    open_exchanges: OpenExchanges
    inbound_keys: InboundKeys | None
    on_refused: Callable[[str], None]
    on_relayed: Callable[[Downstream, int], None]
    on_upgrade_refused: Callable[[str], None]
    websockets: WebSocketPolicy
    cipher: Cipher = OWN_CIPHER
    landing: Landing | None = None

    def __post_init__(self) -> None:
        upstreams, unobserved = self.upstreams, self.rules.unobserved

        @functools.lru_cache(MAX_WAYS)  # clients ask for the same few again and again
        def find_way(
            method: str, target: str, asker: Owner, url: str | None
        ) -> tuple[Route, Api | None]:
            api = find_api(method, target)
            is_observed = api is not None and api.name not in unobserved
            way = upstreams.route(target, asker) if url is None else upstreams.route_to(url, target)
            return way, api if is_observed else None

        self._find_way = find_way
        self._on_disconnect = self.rules.on_disconnect.value
        self.web_socket_counts = WebSocketCounts()
        self.bodies = BodyBudget(self.rules.max_bodies_bytes)
        self._scans = BodyScans()

    async def __call__(self, downstream: Downstream) -> Answered:
        """Relay one request."""
        if (landing := self.landing) is not None and landing.is_wanted(downstream):
            return await landing.answer(downstream)
        given = strip_own_prefixes(downstream)
        url = None if given is None else read_pass(given, self.cipher)
        method, target = downstream.method, downstream.target
        asker = find_asker(downstream.headers) if self.upstreams.owners else Owner.OPENAI
        route, api = self._find_way(method, target, asker, url)
        if (keys := self.inbound_keys) is not None and not _lets_in(keys, downstream, route):
            self.on_refused("no inbound key, or an unknown one")
            return await downstream.answer_error(401, "invalid_api_key", _NO_KEY)
        if keys is None and route.upstream.credentials and is_of_foreign_page(downstream.headers):
            self.on_refused("a web page of another site would spend a key that spantap holds")
            return await downstream.answer_error(403, "foreign_page", _FOREIGN_PAGE)
        if given is not None and url is None:
            return await downstream.answer_error(404, "unknown_base_url", _UNKNOWN_URL)
        if downstream.asks_for_websocket and route.upstream.credentials:
            downstream.headers = drop_protocol_keys(downstream.headers, lambda _: True)
        if route.upstream.replaces_query_key:
            downstream.target = drop_query_keys(downstream.target, lambda _: True)
        if downstream.target != target:
            route, api = self._find_way(method, downstream.target, asker, url)
        if (reason := explain_signed_host(downstream, route.upstream)) is not None:
            self.on_refused("it is signed for another host than Amazon's")
            code = "InvalidSignatureException"
            return await downstream.answer_error(403, code, reason, as_amazon=True)
        return await self._answer(downstream, route, api)

    async def relay_to(self, origin: str, launch: str, downstream: Downstream) -> Answered:
        """Relay a request of an opened connection to the origin that its client called.

        The target is the origin's, whatever it looks like, and no key of ours is asked for. Other
        requests than calls of an API are usual there, so none is counted as unobserved.

        Args:
            origin: the URL of the origin.
            launch: the label of the launch that the request belongs to.
            downstream: the request.
        """
        route, api = self._find_way(downstream.method, downstream.target, Owner.OPENAI, origin)
        downstream.launch = launch
        # As it came: a signature may cover its letters.
        downstream.called_host = downstream.headers.find(b"host") or route.upstream.host_header
        return await self._answer(downstream, route, api)

    async def _answer(self, downstream: Downstream, route: Route, api: Api | None) -> Answered:
        """Relay a request on its way, and observe it if it is a call of an API."""
        open_exchange = self.open_exchanges.begin()
        try:
            if api is None:
                return await self._relay(downstream, route, open_exchange)
            return await self._observe(downstream, route, api, open_exchange).run()
        except asyncio.CancelledError:
            if open_exchange.cut:
                await downstream.cut()
            raise
        except ConnectionError:
            raise
        except Exception:
            if not downstream.head_sent:
                raise
            _log.exception("the relay failed in the middle of an answer")
            return await downstream.cut()
        finally:
            self.open_exchanges.discard(open_exchange)

    def _observe(
        self,
        downstream: Downstream,
        route: Route,
        api: Api,
        open_exchange: OpenExchange,
    ) -> ObservedExchange:
        """Begin an observed exchange."""
        identity = self._identify(downstream.headers, api.name)
        return ObservedExchange(
            downstream=downstream,
            route=route,
            api=api,
            identity=identity,
            tap=self._open_tap(downstream, route, api, identity),
            client=self.client,
            rejections=self.rejections,
            rules=self.rules,
            share=BodyShare(self.bodies),
            scans=self._scans,
            open_exchange=open_exchange,
        )

    def _tap_websocket(
        self, downstream: Downstream, route: Route, response: UpstreamResponse
    ) -> Tap:
        """Begin to observe a WebSocket, if it is one of an API whose messages are known."""
        api = find_session_api(downstream.target)
        if api is None or api.name in self.rules.unobserved:
            if not downstream.called_host:
                self.on_relayed(downstream, response.status)
            return self.taps.open(observed=False)
        identity = self._identify(downstream.headers, api.name)
        tap = self._open_tap(downstream, route, api, identity)
        tap.response_head(response)
        return tap

    def _open_tap(
        self, downstream: Downstream, route: Route, api: Api, identity: SpanIdentity
    ) -> Tap:
        """Begin to record an exchange, if its span may be wanted."""
        rules = self.rules
        observed = identity.sampled or rules.keeps_unsampled
        tap = self.taps.open(observed=observed or (rules.keeps_conversations and identity.is_root))
        tap.begin(
            downstream,
            route.upstream,
            identity,
            endpoint=api.name,
            on_disconnect=self._on_disconnect,
        )
        return tap

    def _identify(self, headers: Head, name: str) -> SpanIdentity:
        """Choose the span's ids; a trace state without a parent is ignored.

        See W3C Trace Context, 3.3.
        """
        parent = headers.find(b"traceparent")
        if parent is None:
            return self.identities.decide(None, None, name=name)
        state = headers.join(b"tracestate")
        return self.identities.decide(
            parent.decode("latin-1"),
            None if state is None else state.decode("latin-1"),
            name=name,
        )

    async def _relay(
        self, downstream: Downstream, route: Route, open_exchange: OpenExchange
    ) -> Answered:
        """Relay in both directions, without changes, buffers or a span."""
        policy = route.upstream.websockets or self.websockets
        if downstream.asks_for_websocket and policy is WebSocketPolicy.REFUSE:
            self.on_upgrade_refused(downstream.target)
            return await downstream.answer_error(426, "upgrade_not_supported", _NO_WEBSOCKET)
        downstream.continue_if_expected()
        is_opened = bool(downstream.called_host)
        try:
            response = await self.client.send(_build_request(downstream, route))
        except GatewayError as error:
            if not is_opened:
                self.on_relayed(downstream, error.status)
            return await downstream.answer_error(error.status, error.code, error.message)
        try:
            if response.status == 101:
                tap = self._tap_websocket(downstream, route, response)
                counts = self.web_socket_counts
                return await join_websocket(downstream, response, open_exchange, tap, counts)
            if not is_opened:
                self.on_relayed(downstream, response.status)
            answered, _ = await relay_answer(response, downstream, self.taps.open(observed=False))
        finally:
            response.close()
        return answered


def _build_request(downstream: Downstream, route: Route) -> UpstreamRequest:
    upstream, headers = route.upstream, downstream.headers
    switches = downstream.asks_for_websocket
    changes = RequestChanges(
        host=downstream.called_host or upstream.host_header,
        switches=switches,
        replaced=upstream.credentials,
    )
    return UpstreamRequest(
        upstream=upstream,
        method=downstream.method,
        target=route.target,
        headers=request_headers(headers, changes),
        rest=None if downstream.body.at_eof() else downstream.body,
        chunked=headers.has(b"transfer-encoding"),
        may_switch=switches,
    )


def _lets_in(keys: InboundKeys, downstream: Downstream, route: Route) -> bool:
    """Tell whether a request has a key, and remove the key: it is not passed on."""
    carriers = keys.find_carriers(downstream.headers)
    # A field that the upstream's own key will replace stays, so that the key takes its place.
    spent = carriers - route.upstream.credentials.keys()
    downstream.headers = downstream.headers.without(spent)
    target, headers = downstream.target, downstream.headers
    downstream.target = drop_query_keys(target, keys.has)
    downstream.headers = drop_protocol_keys(headers, keys.has)
    return bool(carriers) or (downstream.target, downstream.headers) != (target, headers)
