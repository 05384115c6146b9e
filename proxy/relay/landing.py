"""A static page that says what this is, for a browser that opens the traffic port.

It is the one answer of ours to a valid request that an upstream could have answered. So it comes
only where ``/`` belongs to no upstream of the settings, and never to a client that has a key.
"""

from __future__ import annotations

import html
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from proxy.downstream.inbound_keys import CARRIERS
from proxy.headers import Head
from proxy.own_address import is_loopback
from proxy.page_access.address import find_page
from telemetry.privacy.credential_names import looks_like_credential

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proxy.downstream.downstream import Answered, Downstream

KNOWN_SECONDS = 5.0
"""How long the page's address is remembered, so that a flood of requests reads no file each."""

_HTML = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>spantap</title>
<h1>This is spantap</h1>
<p>It relays calls to the APIs of language models, and records them. This is the port for clients:
set it as their base URL, for example <code>OPENAI_BASE_URL={base}/v1</code>.</p>
<p>{page}</p>
</html>
"""


class Landing:
    """The page of ``/``. For a traffic port on loopback without inbound keys.

    Args:
        store: the store whose page the address leads to.
        scheme: of the traffic port, ``http`` or ``https``.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self, store: Path, scheme: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._scheme = scheme
        self._clock = clock
        self._until = float("-inf")
        self._page = ""

    def is_wanted(self, downstream: Downstream) -> bool:
        """Tell whether a browser on this machine asks for ``/``, without a query and a key.

        Cookies do not count: a browser sends those of every program on this machine.
        """
        if downstream.target != "/" or downstream.method != "GET":
            return False
        head = downstream.headers
        kinds = {kind.partition(b";")[0].strip() for kind in head.options(b"accept")}
        return (
            b"text/html" in kinds
            and downstream.body.at_eof()
            and _is_here(head.find(b"host"))
            and not any(map(_is_key, [name.lower() for name, _ in head]))
        )

    async def answer(self, downstream: Downstream) -> Answered:
        """Send the page."""
        # is_wanted has checked that this is a host on loopback.
        host = (downstream.headers.find(b"host") or b"").decode("latin-1")
        base = html.escape(f"{self._scheme}://{host}")
        body = _HTML.format(base=base, page=self._describe_page()).encode()
        fields = [
            (b"Content-Type", b"text/html; charset=utf-8"),
            (b"Content-Length", b"%d" % len(body)),
            (b"Content-Security-Policy", b"default-src 'none'; frame-ancestors 'none'"),
            (b"X-Content-Type-Options", b"nosniff"),
            (b"Cache-Control", b"no-store"),
        ]
        downstream.begin_answer(200, "OK", Head(fields), has_body=True)
        await downstream.send(body)
        return await downstream.finish()

    def _describe_page(self) -> str:
        """Say in HTML where the page with the calls is."""
        if (now := self._clock()) >= self._until:
            self._until = now + KNOWN_SECONDS
            found = find_page(self._store)
            self._page = "" if found is None else html.escape(found.url)
        if not self._page:
            return "The calls have no page now: <code>spantap page</code> opens one."
        return (
            f'The calls are on <a href="{self._page}">{self._page}</a>; '
            "<code>spantap page</code> opens it with its token."
        )


def _is_key(name: bytes) -> bool:
    """Tell whether a field of this name, in lower case, may carry a key."""
    return name != b"cookie" and (name in CARRIERS or looks_like_credential(name.decode("latin-1")))


def _is_here(host: bytes | None) -> bool:
    """Tell whether a ``Host`` names loopback: a site whose name leads here learns nothing."""
    try:
        return is_loopback(urlsplit(f"//{(host or b'').decode('latin-1')}").hostname or "")
    except ValueError:
        return False
