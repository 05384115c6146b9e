"""Checks the upstreams: do they answer, and where do chats go?"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from proxy.app import build_client, build_upstreams
from proxy.commands.check.findings import bad, good, note
from proxy.configure import build_upstream_tls
from proxy.errors import GatewayError
from proxy.headers import Head, RequestChanges, request_headers
from proxy.upstream.owners import LISTS, Owner
from proxy.upstream.request import UpstreamRequest
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.commands.check.findings import Finding
    from proxy.settings.settings import Settings
    from proxy.upstream.client import UpstreamClient
    from proxy.upstream.routes import Upstream, UpstreamTable

_MODELS, _CHATS = "/v1/models", "/v1/chat/completions"
"""Paths that are probed by ``GET``, which costs nothing. The second one distinguishes a server that
lists no models from a wrong path: a right path exists, but does not allow ``GET``."""

_NO_SUCH = frozenset({404, 405})

_NOWHERE = logging.NullHandler()
"""Takes the client's log lines, because they would say the same as the findings."""

_MENDS = {
    "upstream_connect_timeout": "check whether a firewall is in the way, or HTTPS_PROXY is missing",
    "upstream_timeout": "read its log, or raise SPANTAP_FIRST_BYTE_TIMEOUT_SECONDS",
    "upstream_tls_error": "name its authority with SPANTAP_CA_FILE, or write http:// if meant",
    "upstream_wants_certificate": "name one that it accepts with SPANTAP_CLIENT_CERT",
    "forward_proxy_error": "check HTTPS_PROXY, HTTP_PROXY and NO_PROXY",
    "upstream_unreachable": "check whether it runs, and the URL's host and port",
    "upstream_invalid_response": "check whether the URL's port speaks HTTP, or https:// is missing",
    "upstream_closed_before_response": "read its log, and whether https:// is missing",
}
"""What to do, by the code of :mod:`proxy.upstream.errors`."""


def check_upstreams(settings: Settings) -> Iterator[Finding]:
    """Make two findings for each upstream: where it is, and what it answers.

    Upstreams are not asked while a certificate cannot be used;
    :func:`proxy.commands.check.certificates.check_certificates` reports that.
    """
    try:
        build_upstream_tls(settings)
    except ConfigurationError:
        yield note("upstreams", "not asked: see the certificates", "mend those first")
        return
    logging.getLogger("spantap.upstream").addHandler(_NOWHERE)
    try:
        upstreams = build_upstreams(settings)
        yield from asyncio.run(_probe_all(settings, upstreams))
    except ConfigurationError as error:
        yield bad("upstreams", str(error), "fix that setting; `spantap help settings` has its form")


async def _probe_all(settings: Settings, upstreams: UpstreamTable) -> list[Finding]:
    variables = {table.name: table.api_key_env for table in settings.upstreams}
    owners = {id(upstream): owner for owner, upstream in upstreams.owners.items()}
    client = build_client(settings)
    findings = []
    try:
        for upstream in upstreams:
            what, owner = f"upstream {upstream.name!r}", owners.get(id(upstream))
            findings.append(good(what, upstream.describe()))
            try:
                if owner is None:
                    variable = variables.get(upstream.name)
                    findings.append(await _probe(client, upstream, what, variable))
                else:
                    findings.append(await _probe_owner(client, upstream, what, LISTS[owner]))
            except GatewayError as error:
                mend = _MENDS.get(error.code, "check its URL")
                if owner in {None, Owner.OPENAI}:
                    findings.append(bad(what, error.message.rstrip("."), mend))
                else:  # no setting names this provider
                    findings.append(note(what, error.message.rstrip("."), f"if you use it, {mend}"))
    finally:
        await client.close()
    if rows := upstreams.catalogue:
        words = f"{len(rows)} providers by prefix, such as {rows[0].prefix}; --catalogue lists them"
        findings.append(good("catalogue", words))
    return findings


def list_catalogue(settings: Settings) -> int:
    """Print each prefix of the catalogue and its URL, and return the exit status.

    Raises:
        ConfigurationError: the upstreams' settings cannot be used.
    """
    for row in build_upstreams(settings).catalogue:
        print(f"{row.prefix:<14} {row.origin}{row.base_path}")  # noqa: T201 - what was asked for
    return 0


async def _probe_owner(client: UpstreamClient, upstream: Upstream, what: str, path: str) -> Finding:
    """Judge a provider that no setting names; it wants a key, except Ollama.

    Raises:
        GatewayError: it does not answer.
    """
    status, is_page = await _ask(client, upstream, path)
    if status in {400, 401, 403}:
        words = f"reachable (status {status}: it wants a key, which your client sends)"
        return good(what, words)
    return _judge(what, status, f"GET {path} gets status {status}", None, is_page=is_page)


async def _probe(
    client: UpstreamClient, upstream: Upstream, what: str, variable: str | None
) -> Finding:
    """Judge an upstream by its answers to one or two requests.

    Raises:
        GatewayError: it does not answer.
    """
    status, is_page = await _ask(client, upstream, _MODELS)
    words = f"GET {upstream.join(_MODELS)} gets status {status}"
    if status in _NO_SUCH:
        of_chats, _ = await _ask(client, upstream, _CHATS)
        if of_chats == 405 != status:
            return good(what, f"reachable: it has a path for chats, and lists no models ({status})")
        if of_chats not in _NO_SUCH:
            status = of_chats
    return _judge(what, status, words, variable, is_page=is_page)


async def _ask(client: UpstreamClient, upstream: Upstream, path: str) -> tuple[int, bool]:
    """Get the status of a ``GET``, and whether the answer is a web page.

    Raises:
        GatewayError: there is no answer.
    """
    changes = RequestChanges(host=upstream.host_header, replaced=upstream.credentials)
    request = UpstreamRequest(
        upstream=upstream,
        method="GET",
        target=upstream.join(path),
        headers=request_headers(Head([(b"Accept", b"*/*")]), changes),
    )
    response = await client.send(request)
    kind = response.headers.find(b"content-type") or b""
    response.close()
    return response.status, kind.lower().startswith(b"text/html")


def _judge(what: str, status: int, result: str, variable: str | None, *, is_page: bool) -> Finding:
    """Judge a status; `result` describes it, and `variable` names the one that holds our key."""
    if status in {401, 403} and variable is not None:
        words = f"refuses the key in {variable} (status {status})"
        return bad(what, words, f"put a key of this upstream into {variable}")
    if status == 401:
        return good(what, "reachable (status 401: it wants a key, which your client sends)")
    if status == 403:
        words = (
            "reachable, but it refuses spantap (status 403): "
            "it wants a key, or does not admit this machine"
        )
        return note(
            what, words, "call it with your client's key; if that gets 403 too, ask its operator"
        )
    if status >= 500:
        words = f"reachable, but it answers with status {status}"
        return note(what, words, "read its log; calls get the same answer through spantap")
    if status in _NO_SUCH:
        words = f"reachable, but {result}: it lists no models, or the path of its URL is wrong"
        return note(what, words, "make one call; if that gets the same, check the URL's path")
    if 300 <= status < 400:
        words = f"reachable, but {result}: it redirects"
        return note(what, words, "name the URL that it redirects to")
    if is_page and status < 300:
        words = f"reachable, but {result} and a web page: an API answers with JSON"
        return note(what, words, "check the URL's path, and to its port")
    return good(what, f"reachable (status {status})")
