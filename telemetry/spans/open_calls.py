"""Open exchanges as others may see them: content that their spans will hide is hidden here.

The only part of the body that is shown is the model asked for, and not even that if inputs are
hidden. Credentials of the head are masked, and so are the finds of the settings' patterns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codec.apis.table import get_api
from telemetry.observing.client_headers import read_caller
from telemetry.observing.open_call import OpenCall
from telemetry.spans.columns import find_client

if TYPE_CHECKING:
    from telemetry.observing.open_call import OpenExchange
    from telemetry.spans.rules import SpanRules

MAX_MODEL_CHARS: Final = 256
"""The most characters of a model's name, as in the row that the call will have."""


def tell_open(exchange: OpenExchange, rules: SpanRules) -> OpenCall | None:
    """Describe an open exchange; ``None`` if the sampler gives it no span."""
    begin = exchange.begin
    if not begin.identity.sampled:
        return None
    agent, _ = read_caller(begin.headers)
    model = None if exchange.hides_inputs or rules.hides_bodies else exchange.model
    return OpenCall(
        span_id=begin.identity.span_id,
        trace_id=begin.identity.trace_id,
        start_ns=begin.at_ns,
        api=get_api(begin.endpoint).name,
        upstream=begin.upstream,
        model=None if model is None else _mask(model, exchange, rules)[:MAX_MODEL_CHARS],
        client=None if agent is None else find_client(_mask(agent, exchange, rules)),
        launch=begin.launch or None,
        http_status=exchange.status,
        chunks=exchange.reads,
    )


def _mask(text: str, exchange: OpenExchange, rules: SpanRules) -> str:
    masked = exchange.credentials.redact(text)
    return masked if rules.redaction is None else rules.redaction.redact_text(masked)
