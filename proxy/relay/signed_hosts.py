"""Explains to clients why Amazon would refuse requests that are signed for spantap's host.

A signature (Signature Version 4) covers the host that the client calls, which is the proxy. Amazon
expects its own host there, and would only say that the signature does not match. Only the owner of
the secret key can sign again, so the client gets an answer from us that says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telemetry.privacy.aws_signature import read_header_signature, read_query_signature
from telemetry.provider import infer_provider

if TYPE_CHECKING:
    from proxy.downstream.downstream import Downstream
    from proxy.upstream.routes import Upstream

AMAZON = "aws"
"""The name that :func:`telemetry.provider.infer_provider` gives Amazon."""

_OF_CUSTOMERS: Final = frozenset({"compute", "compute-1", "elb", "execute-api"})
"""Labels in names of Amazon's hosts that are customers' own servers: a gateway there may sign
again, or check nothing."""

_EXPLANATION = (
    "This request is signed (AWS Signature Version 4) for the host that it was sent to, which is "
    "spantap's, and {host} takes it for its own host alone. Use an API key of Bedrock "
    "(AWS_BEARER_TOKEN_BEDROCK), which passes through spantap, or send signed calls to AWS "
    "directly."
)


def explain_signed_host(downstream: Downstream, upstream: Upstream) -> str | None:
    """Explain why Amazon would not take a request; ``None`` if it may take it.

    Only a signature that is sent to a service of Amazon's and covers another host is useless.
    """
    host = upstream.origin.host or ""
    if infer_provider(host) != AMAZON or not _OF_CUSTOMERS.isdisjoint(host.lower().split(".")):
        return None
    headers = downstream.headers
    authorization = headers.find(b"authorization") or b""
    signature = None
    if b"authorization" not in upstream.credentials:  # else our key replaces it
        signature = read_header_signature(authorization.decode("latin-1"))
    if signature is None:
        signature = read_query_signature(downstream.target.partition("?")[2])
    if signature is None or "host" not in signature.headers:
        return None
    asked = (headers.find(b"host") or b"").lower()
    port = b":443" if upstream.origin.scheme == "https" else b":80"
    if asked.removesuffix(port) == upstream.host_header.lower():
        return None
    return _EXPLANATION.format(host=host)
