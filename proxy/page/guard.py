"""Lets in who may come, and puts the headers of safety on every answer.

Rules:

1. Who is asked for (``Host``) is this machine, the address that was connected to, or one of the
   setting's hosts: a stranger's name that leads here (DNS rebinding) is refused.
2. What a browser sends for another page is refused: below ``/api/``, ``Origin`` and
   ``Sec-Fetch-Site`` say that it is our own, or nothing. There is never a CORS header.
3. Below ``/api/`` nothing is done without the token, as a cookie or ``Authorization: Bearer``, but
   the exchange of the one for the other.
4. Every answer has :data:`HEADERS`, also an error; data have ``Cache-Control: no-store``.
5. What goes wrong is told in one form, and never how: no path, no trace
   (``docs/contract/page.md#errors``).
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
"""On every answer (rule 4); the last hides versions of what the server is made of."""


def build_guard(check: TokenCheck, hosts: Collection[str]) -> Middleware:
    """Build the middleware: the checks in their order, and errors in their form."""
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
        except Exception as error:  # noqa: BLE001 - whatever it is, the form of errors stays
            # Its words may be what somebody said to a model: they go into no log (R7).
            _log.error("the page cannot answer %s: %s", request.path, type(error).__name__)
            _log.debug("at", exc_info=_without_words(error))
            return build_error(PageError("internal", "the page has a defect: see its log"))

    return guard


async def put_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Put the headers of safety on an answer; for ``app.on_response_prepare``."""
    response.headers.update(HEADERS)
    if "Cache-Control" not in response.headers or request.path.startswith(_API):
        response.headers["Cache-Control"] = "no-store"


def _check_host(request: web.Request, known: Collection[str]) -> None:
    """See that the request was meant for us (rule 1)."""
    said = request.headers.getall("Host", [])
    # Of a request in absolute form aiohttp takes the host from there.
    if len(said) == 1 and said[0] == request.host:
        host = _host_of(f"//{said[0]}")
        if host is not None and (is_loopback(host) or host in known or host == _own(request)):
            return
    raise PageError(
        "host", "this host is not one of the page's: SPANTAP_PAGE_HOSTS names those it has"
    )


def _own(request: web.Request) -> str | None:
    """Tell the address that the connection came to."""
    address = request.transport.get_extra_info("sockname") if request.transport else None
    return str(address[0]) if isinstance(address, tuple) else None


def _check_origin(request: web.Request) -> None:
    """See that no other page sends the request (rule 2)."""
    origins = request.headers.getall("Origin", [])
    sites = request.headers.getall("Sec-Fetch-Site", [])
    allowed = {"same-origin"} if request.method == "POST" else {"same-origin", "none"}
    if not allowed.issuperset(sites) or not all(_is_own(one, request) for one in origins):
        raise PageError("origin", "another page may not ask for this")


def _is_own(origin: str, request: web.Request) -> bool:
    """Tell whether an origin is ours; its scheme may be that of a proxy before us."""
    scheme, _, rest = origin.partition("://")
    return scheme in {"http", "https"} and rest.lower() == request.host.lower()


def _host_of(url: str) -> str | None:
    """Pick the host, without its port; ``None`` where there is none."""
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return None
    return host.rstrip(".") if host else None


def _check_token(request: web.Request, check: TokenCheck) -> None:
    """See that the sender may see what is recorded (rule 3)."""
    if check.is_open or check.accepts_cookie(request.cookies.get(check.cookie_name, "")):
        return
    scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and check.accepts_token(shown.strip()):
        return
    raise PageError("token", "the token is missing, or it is another")


def _translate(error: web.HTTPException) -> PageError:
    """Say in the API's words what aiohttp refuses."""
    if error.status == 404:
        return PageError("not_found", "there is nothing here")
    if error.status == 405:
        return PageError("method", "this is not how it is asked for")
    if error.status == 413:
        return PageError("too_large", "the request is too large")
    if error.status < 500:
        return PageError("parameter", "the request cannot be followed")
    return PageError("busy", "the page cannot answer now")


def _without_words(error: BaseException) -> BaseException:
    """The error with its place, and without what it says."""
    return RuntimeError(type(error).__name__).with_traceback(error.__traceback__)
