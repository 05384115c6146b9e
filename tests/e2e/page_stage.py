"""The page of a proxy that runs, in a real browser: what tests of its screens stand on.

Use it as::

    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        ...                                   # calls by `stage.proxy.base_url`
        await stage.open("#/conversations")
        await stage.page.wait_for("Lisbon")

What no screen may do is looked for at the end of each stage: report a fault, break the policy of
the page, or ask another host.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests

from tests.e2e.browser import open_page
from tests.e2e.processes import find_free_port, wait_until
from tests.e2e.spantap import running_proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from tests.e2e.browser import Page
    from tests.e2e.spantap import RunningProxy, Upstream

__all__ = ("AXE", "PICTURES", "Stage", "open_stage")

PICTURES = Path(".e2e")
"""Where pictures are left to be looked at; ``docs/images`` has copies of good ones."""

AXE = Path(".e2e/node/node_modules/axe-core/axe.min.js")

NARROW, WIDE = 420, 1440

_WATCH = """
    window.broken = [];
    addEventListener('securitypolicyviolation', (event) =>
        window.broken.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""

_FITS = (
    "[...document.querySelectorAll('.notice')]"
    ".every((one) => one.getBoundingClientRect().right <= innerWidth)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A proxy with its page, and a browser that has the page's token.

    Attributes:
        url: where the page is, with a slash at its end.
        token: of the page.
    """

    proxy: RunningProxy
    page: Page
    url: str
    token: str

    async def open(self, fragment: str) -> None:
        """Go to a screen by its fragment."""
        await self.page.ask(f"location.hash = {json.dumps(fragment)}")

    def read(self, path: str, **parameters: str | int) -> Any:
        """Read the API as a script does, and return what it answers."""
        return get_json(f"{self.url}api/{path}", self.token, **parameters)

    def wait_for_calls(self, count: int) -> None:
        """Wait until so many calls are recorded."""
        wait_until(lambda: self.read("status")["calls"] >= count, 30, f"{count} calls are recorded")

    async def find_barriers(self) -> list[str]:
        """Find with axe-core what keeps people from using what is shown, in words."""
        if not await self.page.ask("Boolean(window.axe)"):
            await self.page.ask(f"{{{await asyncio.to_thread(AXE.read_text)}}} true")
        found = await self.page.ask(
            "axe.run().then(({violations}) => violations.flatMap(({id, help, nodes}) =>"
            " nodes.map((one) => `${id}: ${help}: ${one.html.slice(0, 200)}`)))"
        )
        return list(found)

    async def take_pictures(self, name: str) -> None:
        """Leave pictures of what is shown: light and dark, wide and narrow."""
        for dark in (False, True):
            for width in (WIDE, NARROW):
                await self.page.look(width=width, dark=dark)
                await self.page.settle()
                assert await self.page.ask(_FITS), "a notice is cut off"
                shape = "wide" if width == WIDE else "narrow"
                path = PICTURES / f"page-{name}-{'dark' if dark else 'light'}-{shape}.png"
                await self.page.screenshot(path)
        await self.page.look()

    async def find_wide(self) -> int:
        """Find by how many pixels the document is wider than the window."""
        width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(await self.page.ask(width))


def get_json(url: str, token: str, **parameters: str | int) -> Any:
    """GET with the token in the header, and return the answer as JSON."""
    with requests.Session() as session:
        session.trust_env = False
        headers = {"Authorization": f"Bearer {token}"}
        answer = session.get(url, params=parameters, headers=headers, timeout=30)
    assert answer.ok, answer.text
    return answer.json()


@asynccontextmanager
async def open_stage(
    folder: Path,
    *,
    upstream_port: int,
    upstreams: Sequence[Upstream] = (),
    environment: Mapping[str, str] | None = None,
    is_hurt: bool = False,
) -> AsyncIterator[Stage]:
    """A proxy before the demo upstream, its page, and a browser that looks at it.

    Args:
        folder: an empty folder; a store ``traces.db`` in it is the proxy's.
        upstream_port: where the demo upstream listens.
        upstreams: further ones.
        environment: further variables of the proxy.
        is_hurt: processes of the proxy are killed.
    """
    port, token = find_free_port(), secrets.token_urlsafe(32)
    variables = {
        "SPANTAP_VALUES": "text",
        "SPANTAP_CONVERSATIONS_AS": "runs",
        "SPANTAP_PAGE_PORT": str(port),
        "SPANTAP_PAGE_TOKEN": token,
        **(environment or {}),
    }
    with running_proxy(
        folder,
        upstream_port=upstream_port,
        project="page",
        endpoint="",  # the store is the backend
        protocol="http/protobuf",
        upstreams=upstreams,
        environment=variables,
        is_hurt=is_hurt,
    ) as proxy:
        async with open_page(folder) as page:
            await page.prepare(_WATCH)
            await page.look()
            await page.open(f"http://127.0.0.1:{port}/#token={token}")
            await page.wait_until("document.querySelector('#rail a')")
            yield Stage(proxy=proxy, page=page, url=f"http://127.0.0.1:{port}/", token=token)
            assert not await page.ask("window.broken"), await page.ask("window.broken")
            foreign = await page.ask(
                "performance.getEntriesByType('resource').map(({name}) => name)"
                ".filter((name) => !name.startsWith(location.origin) && !name.startsWith('blob:'))"
            )
            assert not foreign, foreign
        assert not page.faults, page.faults
