"""Checks each request of the page, and sets the security headers of every answer.

Promises to the user, whose calls the page shows:

1. ``Host`` must be this machine, the address of the connection, or a host of the setting. Another
   name that leads here is refused (DNS rebinding).
2. A request that a browser sends for another page is refused: below ``/api/``, ``Origin`` and
   ``Sec-Fetch-Site`` must name our page, or be absent. No answer has a CORS header.
3. Below ``/api/`` nothing works without the token, as a cookie or ``Authorization: Bearer``, except
   exchanging the token for the cookie.
4. Every answer has :data:`HEADERS`, also an error; data have ``Cache-Control: no-store``.
5. All errors have one form, without a path or a traceback (``docs/contract/page.md#errors``).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from aiohttp import web

from proxy.own_address import is_loopback
from proxy.page.errors import PageError, build_error
from telemetry.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Collection

    from aiohttp.typedefs import Handler, Middleware

    from proxy.page.token import TokenCheck

_log = logging.getLogger("spantap.page")

TOKEN_PATH: Final = "/api/token"  # noqa: S105 - a path

_API: Final = "/api/"

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "spantap",
}
"""The headers of every answer; the last hides the versions of the server's libraries."""


def build_guard(check: TokenCheck, hosts: Collection[str]) -> Middleware:
    """Build the middleware: it makes the checks in order, and gives errors their form."""
    known = {host.lower().rstrip(".") for host in hosts}

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            _check_host(request, known)
            if request.path.startswith(_API):
                _check_origin(request)
                if request.path != TOKEN_PATH:
                    _check_token(request, check)
            return await handler(request)
        except PageError as error:
            return build_error(error)
        except web.HTTPException as error:
            return build_error(_translate(error))
        except StoreError as error:
            return build_error(PageError("store", str(error)))
        except ConnectionError:  # the client has gone
            raise
        except Exception as error:  # noqa: BLE001 - every error gets the same form
            # Its text may quote what somebody said to a model, so it is not logged (R7).
            _log.error("the page cannot answer %s: %s", request.path, type(error).__name__)
            _log.debug("at", exc_info=_without_words(error))
            return build_error(PageError("internal", "the page has a defect: see its log"))

    return guard


async def put_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Set the security headers of an answer; for ``app.on_response_prepare``."""
    response.headers.update(HEADERS)
    if "Cache-Control" not in response.headers or request.path.startswith(_API):
        response.headers["Cache-Control"] = "no-store"


def _check_host(request: web.Request, known: Collection[str]) -> None:
    """Check that the request was meant for us."""
    said = request.headers.getall("Host", [])
    # If the request's target is a whole URL, aiohttp takes the host from there.
    if len(said) == 1 and said[0] == request.host:
        host = _host_of(f"//{said[0]}")
        if host is not None and (is_loopback(host) or host in known or host == _own(request)):
            return
    raise PageError("host", "the page does not answer for this host; SPANTAP_PAGE_HOSTS adds hosts")


def _own(request: web.Request) -> str | None:
    """Return our address of the connection."""
    address = request.transport.get_extra_info("sockname") if request.transport else None
    return str(address[0]) if isinstance(address, tuple) else None


def _check_origin(request: web.Request) -> None:
    """Check that no other page sends the request."""
    origins = request.headers.getall("Origin", [])
    sites = request.headers.getall("Sec-Fetch-Site", [])
    allowed = {"same-origin"} if request.method == "POST" else {"same-origin", "none"}
    if not allowed.issuperset(sites) or not all(_is_own(one, request) for one in origins):
        raise PageError("origin", "another page must not ask for this")


def _is_own(origin: str, request: web.Request) -> bool:
    """Tell whether an origin is ours; the scheme may be that of a reverse proxy."""
    scheme, _, rest = origin.partition("://")
    return scheme in {"http", "https"} and rest.lower() == request.host.lower()


def _host_of(url: str) -> str | None:
    """Return the host without its port; ``None`` if there is none."""
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return None
    return host.rstrip(".") if host else None


def _check_token(request: web.Request, check: TokenCheck) -> None:
    """Check that the sender may see what is recorded."""
    if check.is_open or check.accepts_cookie(request.cookies.get(check.cookie_name, "")):
        return
    scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and check.accepts_token(shown.strip()):
        return
    raise PageError("token", "the token is missing or wrong")


def _translate(error: web.HTTPException) -> PageError:
    """Make our error from the one with which aiohttp refuses a request."""
    if error.status == 404:
        return PageError("not_found", "there is nothing here")
    if error.status == 405:
        return PageError("method", "this method is not allowed here")
    if error.status == 413:
        return PageError("too_large", "the request is too large")
    if error.status < 500:
        return PageError("parameter", "the request is invalid")
    return PageError("busy", "the page cannot answer now")


def _without_words(error: BaseException) -> BaseException:
    """Return an error with the same traceback, and without the text."""
    return RuntimeError(type(error).__name__).with_traceback(error.__traceback__)
