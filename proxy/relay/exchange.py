"""One observed exchange: read, rewrite, ask, relay, and say how it ended.

What the tap and the rewriter do never decides whether the exchange is relayed (R2). Only a request
that we altered is ever sent twice, and only if it may have been refused because of what we added
(:mod:`proxy.relay.second_ask`).

A body over its limit, or without room beside those of other calls, is relayed as it comes, and
recorded as left out. A form is relayed as it comes, whatever its size, because nothing in it is
rewritten; its fields are recorded (:mod:`proxy.relay.form_tap`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from codec.text.scan import BodyScan, RequestScanner
from codec.usage_option import Rewrite, UsagePolicy, leave_body
from proxy.errors import GatewayError
from proxy.headers import RequestChanges, request_headers
from proxy.limits import MAX_BODIES_BYTES
from proxy.on_disconnect import OnDisconnect
from proxy.relay.body_scan import may_be_long
from proxy.relay.form_tap import open_form
from proxy.relay.rejections import MAX_KEY_BYTES
from proxy.relay.second_ask import ask_again
from proxy.relay.signatures import covers_body, covers_trace
from proxy.relay.tee import relay_answer
from proxy.request_body import BodyShare, GatheredBody
from proxy.tasks import spawn
from proxy.upstream.request import UpstreamRequest
from proxy.upstream.response import UpstreamBroken
from telemetry.frames.ending import EndKind

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from codec.apis.api import Api
    from codec.text.blocks import Blocks
    from proxy.downstream.downstream import Answered, Downstream
    from proxy.relay.body_scan import BodyScans
    from proxy.relay.form_tap import FormTap
    from proxy.relay.open_exchanges import OpenExchange
    from proxy.relay.rejections import RejectionKey, Rejections
    from proxy.relay.tap import Tap
    from proxy.request_body import RequestBody
    from proxy.upstream.client import UpstreamClient
    from proxy.upstream.response import UpstreamResponse
    from proxy.upstream.routes import Route
    from telemetry.span_identity import SpanIdentity

T = TypeVar("T")

_UNTOUCHED = Rewrite(body=b"")

MAX_DRAIN_BYTES = 8 * 1024 * 1024
"""How much of an answer is read for its usage after the client has left."""

MAX_DRAIN_SECONDS = 60.0
"""How long such reading may take, including the wait for the head: a client that left should not
pay for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRules:
    """The settings that apply to every observed exchange.

    Attributes:
        max_body_bytes: the largest request that is buffered, rewritten and recorded.
        propagate: the upstream gets a ``traceparent`` with our span.
        shows_ids: the head of the answer has the ids of the span, if it will be recorded.
        keeps_unsampled: unsampled calls are observed too, because some of them will be kept.
        keeps_conversations: unsampled calls without a caller's decision are observed too, because
            they may belong to a conversation that is recorded.
        max_bodies_bytes: the largest size of the requests of all open calls together.
        unobserved: names of APIs whose calls are relayed and not observed.
    """

    max_body_bytes: int
    on_disconnect: OnDisconnect
    propagate: bool
    shows_ids: bool = False
    keeps_unsampled: bool = False
    keeps_conversations: bool = False
    max_bodies_bytes: int = MAX_BODIES_BYTES
    unobserved: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class ObservedExchange:
    """One request to an observed endpoint, from its head to its end."""

    downstream: Downstream
    route: Route
    api: Api
    identity: SpanIdentity
    tap: Tap
    client: UpstreamClient
    rejections: Rejections
    rules: ExchangeRules
    share: BodyShare
    scans: BodyScans
    open_exchange: OpenExchange
    _form: FormTap | None = None  # in the request's body
    _rejection_key: RejectionKey | None = None  # of a request that is rewritten
    _rewritten: Rewrite = _UNTOUCHED  # what was done to the request that was answered
    _resend_count: int = 0
    _drain_until: float | None = None  # on the loop's clock, once the client has left
    _ending: tuple[EndKind, str] = (EndKind.RELAY_ERROR, "the relay failed")

    async def run(self) -> Answered:
        """Relay the exchange, and return what becomes of the client's connection."""
        try:
            return await self._relay()
        except asyncio.CancelledError:
            self._ending = self._client_gone()
            if self.open_exchange.cut and self._drain_until is None:
                self._ending = (EndKind.DRAIN_DEADLINE, "cut when spantap shut down")
            raise
        except ConnectionError:
            self._ending = self._client_gone()
            raise
        except Exception as error:
            self._ending = (EndKind.RELAY_ERROR, f"the relay failed: {type(error).__name__}")
            raise
        finally:
            # The one place, without an await: a second cancellation cannot skip it (R3).
            self.tap.end(*self._ending)

    def _client_gone(self) -> tuple[EndKind, str]:
        if self.downstream.stalled:
            return EndKind.CLIENT_STALLED, "the client read nothing of its answer for too long"
        return EndKind.CLIENT_GONE, ""

    async def _relay(self) -> Answered:
        if self.rules.shows_ids and self.identity.sampled:
            self.downstream.own_fields = (
                (b"x-spantap-span-id", self.identity.span_id.encode()),
                (b"x-spantap-trace-id", self.identity.trace_id.encode()),
            )
        try:
            response = await self._send()
        except GatewayError as error:
            self._ending = (error.end, error.message)
            return await self.downstream.answer_error(error.status, error.code, error.message)
        try:
            return await self._answer(response)
        except (asyncio.CancelledError, ConnectionError):
            if self.rules.on_disconnect is OnDisconnect.DRAIN and not self.open_exchange.cut:
                self._note_client_gone()
                await self._outlive_client(self._drain(response))
            raise
        finally:
            response.close()

    async def _send(self) -> UpstreamResponse:
        """Read the request and send it; nothing of its body is kept once the upstream has it."""
        try:
            body, rest, scan = await self._read_body()
            rewrite = self._rewrite(body, scan)
            if rewrite.rewrites:
                asking = self._ask_rewritten(rewrite, body)
            else:
                asking = self.client.send(self._request(rewrite, rest))
            if self.rules.on_disconnect is OnDisconnect.DRAIN:
                asking = self._outlive_client(asking)
            response = await asking
        except BaseException:
            self._give_back()
            raise
        if self._form is not None:
            self._form.record()
        response.when_uploaded(self.share.give_back)
        return response

    def _give_back(self) -> None:
        """Give back the memory held for a request that got no answer."""
        if self._form is not None:
            self._form.record()
        self.share.give_back()

    async def _read_body(self) -> tuple[bytes | Blocks, RequestBody | None, BodyScan | None]:
        """Read the body: its bytes, the reader of the rest past a limit, and its members' places.

        The places are ``None`` past a limit, for compressed bytes, and for an API without a usage
        option.
        """
        self.downstream.continue_if_expected()
        reader = self.downstream.body
        self._form = open_form(self.api, self.downstream, self.tap, self.share.reserve)
        if self._form is not None:
            return b"", reader, None
        option, is_encoded = self.api.usage_option, self.downstream.headers.is_encoded
        names = None if option is None or is_encoded else option.members
        body = reader.pop()  # usually all of it has come
        if not body:
            return await self._gather_body(reader, names)
        is_whole = self._has_room(len(body), len(body))
        self.tap.request_body(body if is_whole else None, len(body))
        if not is_whole:
            return body, reader, None
        return body, None, await self.scans.scan(body, names) if names else None

    async def _gather_body(
        self, reader: RequestBody, names: frozenset[str] | None
    ) -> tuple[bytes | Blocks, RequestBody | None, BodyScan | None]:
        """Gather a body that comes in several reads; a long one is scanned as it comes."""
        gathered = GatheredBody()
        scanner = RequestScanner(names) if names and may_be_long(self.downstream.headers) else None
        is_within = True
        try:
            while is_within and not reader.at_eof():
                data = reader.pop() or await reader.read()
                gathered.feed(data)
                is_within = self._has_room(len(data), len(gathered))
                if is_within and scanner is not None:
                    await self.scans.feed(scanner, data)
        except GatewayError:
            self._record(gathered, is_within=True)
            raise
        body = self._record(gathered, is_within=is_within)
        if not is_within:
            return body, reader, None
        if scanner is not None:
            return body, None, scanner.finish()
        return body, None, await self.scans.scan(body[:], names) if names else None

    def _record(self, gathered: GatheredBody, *, is_within: bool) -> bytes | Blocks:
        """Record what was gathered, and return it."""
        body = gathered.pop()
        self.tap.request_body(body if is_within else None, len(body))
        return body

    def _has_room(self, read_bytes: int, body_bytes: int) -> bool:
        """Count a read, and tell whether its body is within both limits."""
        return self.share.reserve(read_bytes) and body_bytes <= self.rules.max_body_bytes

    def _rewrite(self, body: bytes | Blocks, scan: BodyScan | None) -> Rewrite:
        option = self.api.usage_option
        if scan is None or option is None:
            return leave_body(body)
        rewrite = option.rewrite(body, scan, self.route.upstream.usage)
        if not rewrite.rewrites:
            return rewrite
        model = scan.value(body, "model", MAX_KEY_BYTES + 1)  # a longer one is not remembered
        self._rejection_key = (self.route.upstream.name, self.route.target, model)
        if self._rejection_key in self.rejections or covers_body(self.downstream):
            return option.rewrite(body, scan, UsagePolicy.NEVER)
        if not self.share.reserve(rewrite.size_bytes):
            return leave_body(body)  # no room for both, and the client's own may be needed again
        return rewrite

    async def _ask_rewritten(self, rewrite: Rewrite, body: bytes | Blocks) -> UpstreamResponse:
        """Ask with the option, and perhaps again without it; the last answer counts."""
        response = await self.client.send(self._request(rewrite, None))
        option, key = self.api.usage_option, self._rejection_key
        if option is not None and key is not None:
            second = await ask_again(
                response,
                option,
                self.rejections,
                key,
                lambda: self.client.send(self._request(leave_body(body), None)),
            )
            if second is not None:
                self._resend_count = 1
                return second
        self._rewritten = msgspec.structs.replace(rewrite, body=b"", more=())
        return response

    def _request(self, rewrite: Rewrite, rest: RequestBody | None) -> UpstreamRequest:
        upstream, identity = self.route.upstream, self.identity
        replaced: dict[bytes, tuple[bytes, bytes] | None] = {**upstream.credentials}
        if self.rules.propagate and not covers_trace(self.downstream):
            value = identity.traceparent.encode("ascii")
            replaced[b"traceparent"] = (b"traceparent", value)
            state = identity.trace_state
            replaced[b"tracestate"] = (b"tracestate", state.encode("ascii")) if state else None
        if rewrite.rewrites:
            # Otherwise the usage event could not be found in the answer.
            replaced[b"accept-encoding"] = (b"Accept-Encoding", b"identity")
        changes = RequestChanges(
            host=self.downstream.called_host or upstream.host_header,
            content_length=rewrite.size_bytes if rewrite.rewrites else None,
            replaced=replaced,
        )
        headers = self.downstream.headers
        return UpstreamRequest(
            upstream=upstream,
            method=self.downstream.method,
            target=self.route.target,
            headers=request_headers(headers, changes),
            body=rewrite.body,
            more=rewrite.more,
            rest=rest,
            chunked=headers.has(b"transfer-encoding"),
        )

    async def _answer(self, response: UpstreamResponse) -> Answered:
        if self.open_exchange.cut:
            raise asyncio.CancelledError  # just when the answer came
        rewrite = self._rewritten
        could_hide = rewrite.asked and response.status < 300
        is_encoded = could_hide and response.headers.is_encoded
        hides_usage = could_hide and not is_encoded and _may_be_stream(response)
        self.tap.response_head(
            response,
            resend_count=self._resend_count,
            rewrites=rewrite.rewrites,
            hides_usage=hides_usage,
            usage_event_not_stripped=is_encoded,
        )
        option = self.api.usage_option
        event_filter = option.open_filter() if option is not None and hides_usage else None
        answered, broken = await relay_answer(response, self.downstream, self.tap, event_filter)
        end = EndKind.UPSTREAM_EOF if response.is_framed else EndKind.UPSTREAM_UNFRAMED_END
        self._ending = (broken.end, str(broken)) if broken else (end, "")
        return answered

    async def _outlive_client(self, step: Coroutine[Any, Any, T]) -> T:
        """Finish a step, even if the client leaves meanwhile.

        With the policy ``drain`` nothing is cancelled when the client leaves, even if the answer's
        head has not come yet. We continue to read the answer for its usage, until its end, a limit,
        or a shutdown that cannot wait.

        Raises:
            asyncio.CancelledError: it took too long, or shutdown cannot wait.
        """
        # A separate task: a client that leaves cancels twice, at its FIN and when it is closed.
        task = spawn(step, name="outlives its client")
        while not task.done():
            gives_up = bool(task.cancelling())
            try:
                # After a cancellation the wait has no limit: the task may have things to close.
                limit = None if gives_up else self._drain_seconds_left()
                done, _ = await asyncio.wait({task}, timeout=limit)
                too_long = not done
            except asyncio.CancelledError:
                too_long = self.open_exchange.cut
                if not too_long:
                    self._note_client_gone()
            if too_long and not gives_up:
                task.cancel()
        result: T = task.result()
        return result

    def _note_client_gone(self) -> None:
        if self._drain_until is None:
            self._drain_until = asyncio.get_running_loop().time() + MAX_DRAIN_SECONDS

    def _drain_seconds_left(self) -> float | None:
        """Return the seconds left for draining; ``None`` while the client is connected."""
        if self._drain_until is None:
            return None
        return max(self._drain_until - asyncio.get_running_loop().time(), 0)

    async def _drain(self, response: UpstreamResponse) -> None:
        """Continue to read for the usage, after the client has left."""
        size = 0
        try:
            while size < MAX_DRAIN_BYTES and (data := await response.read()):
                self.tap.response_data(data)
                size += len(data)
        except UpstreamBroken:
            return


def _may_be_stream(response: UpstreamResponse) -> bool:
    """Tell whether the answer may have events; JSON of a known length has none.

    The content type alone is not enough: Azure AI Foundry is known to call its streams JSON
    (``docs/contract/wire.md#dialects``). The filter passes on at once what is not an event.
    """
    kind = response.headers.find(b"content-type") or b""
    is_counted = response.headers.has(b"content-length")
    return not (is_counted and kind.lower().startswith(b"application/json"))
