"""A headless Chromium, steered over its DevTools protocol.

Screenshots by the command line come when a page has loaded; one that fetches what it shows, and
slides it in, is then half drawn. Over the protocol a test waits for what it wants to see.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import time
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from tests.e2e.processes import clean_environment, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from codec.text.jsontext import JsonObject

__all__ = ("Page", "open_page")

_VIEW = {"width": 1440, "height": 1160, "deviceScaleFactor": 1, "mobile": False}
"""The size of what is seen, in CSS pixels; the window's holds the browser's own parts too."""

_STILL = {"name": "prefers-reduced-motion", "value": "reduce"}
"""Phoenix slides its panels in; a reader who asks for less motion gets them at once."""

_TYPED = {"Enter": "\r", "Space": " "}
_CODES = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    "PageUp": 33,
    "PageDown": 34,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}
"""What a browser knows a key by, where it does something by itself."""

_START_SECONDS = 30.0
_QUIET_SECONDS = 1.0
_FLAGS = (
    "--headless",
    "--no-sandbox",  # root in a container has none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--remote-debugging-port=0",  # a free one, told in the profile's DevToolsActivePort
)


class Page:
    """One page of a browser.

    Attributes:
        faults: exceptions and errors that the page's scripts reported, in words.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.faults: list[str] = []
        self._socket = socket
        self._count = 0

    async def open(self, url: str) -> None:
        """Go to an address; what is fetched later is not waited for."""
        await self._call("Page.navigate", url=url)

    async def wait_for(self, *texts: str, seconds: float = 90.0) -> str:
        """Wait until all these texts are to be read; all that is."""
        text = ""
        try:
            async with asyncio.timeout(seconds):
                while not all(wanted in text for wanted in texts):
                    await asyncio.sleep(0.1)
                    text = await self._ask("document.body?.innerText ?? ''")
        except TimeoutError:
            missing = [wanted for wanted in texts if wanted not in text]
            raise AssertionError(f"the page does not show {missing}, but: {text}") from None
        return text

    async def open_tab(self, name: str) -> None:
        """Open one of the tabs by its name on the page."""
        script = f"""
            const tabs = [...document.querySelectorAll('[role=tab]')];
            const tab = tabs.find(tab => tab.innerText.startsWith({json.dumps(name)}));
            tab?.click();
            tab !== undefined"""
        assert await self._ask(f"{{{script}}}"), f"the page has no tab {name}"

    async def unfold(self, name: str) -> None:
        """Unfold what is folded under this name."""
        script = f"""
            const folded = [...document.querySelectorAll('[aria-expanded=false]')];
            const named = folded.filter(one => one.innerText.startsWith({json.dumps(name)}));
            named.forEach(one => one.click());
            named.length"""
        assert await self._ask(f"{{{script}}}"), f"nothing is folded under {name}"

    async def find_pictures(self) -> list[int]:
        """Find the widths of the pictures that came within the page; of one that is broken, 0."""
        script = """
            [...document.images].filter(one => one.src.startsWith('data:image'))
                .map(one => one.naturalWidth)"""
        widths: list[int] = await self._ask(script)
        return widths

    async def settle(self) -> None:
        """Wait until nothing more was fetched for a while, so that all is drawn."""
        count, since = -1, time.monotonic()
        while time.monotonic() - since < _QUIET_SECONDS:
            await asyncio.sleep(0.1)
            fetched = await self._ask("performance.getEntriesByType('resource').length")
            if fetched != count:
                count, since = fetched, time.monotonic()

    async def prepare(self, script: str) -> None:
        """Have a script run at the beginning of every page that is opened from now on."""
        await self._call("Page.addScriptToEvaluateOnNewDocument", source=script)

    async def press(self, *keys: str, shift: bool = False) -> None:
        """Press keys by their names, one after another: ``j``, ``Enter``, ``ArrowDown``."""
        for key in keys:
            typed = {"text": _TYPED.get(key, key)} if len(key) == 1 or key in _TYPED else {}
            code = {"windowsVirtualKeyCode": _CODES[key]} if key in _CODES else {}
            parts: dict[str, Any] = {"key": key, "modifiers": 8 if shift else 0, **code}
            await self._call("Input.dispatchKeyEvent", type="keyDown", **parts, **typed)
            await self._call("Input.dispatchKeyEvent", type="keyUp", **parts)

    async def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag the mouse from one place to another, in CSS pixels."""
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        steps = (("mousePressed", start), ("mouseMoved", middle), ("mouseMoved", end))
        for kind, (x, y) in (*steps, ("mouseReleased", end)):
            mouse = {"x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1}
            await self._call("Input.dispatchMouseEvent", type=kind, **mouse)

    async def look(
        self, *, width: int = 1440, height: int = 900, dark: bool = False, zoom: float = 1.0
    ) -> None:
        """Look at the page in a window of that size, in light or dark, at that zoom."""
        view = {"width": round(width / zoom), "height": round(height / zoom), "mobile": False}
        await self._call("Emulation.setDeviceMetricsOverride", deviceScaleFactor=zoom, **view)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self._call("Emulation.setEmulatedMedia", features=[_STILL, scheme])

    async def ask(self, expression: str) -> Any:
        """Evaluate an expression in the page; a promise is waited for."""
        answer = await self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def wait_until(self, expression: str, seconds: float = 30.0) -> None:
        """Wait until an expression is true in the page."""
        try:
            async with asyncio.timeout(seconds):
                while not await self._ask(f"Boolean({expression})"):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            text = await self._ask("document.body?.innerText ?? ''")
            raise AssertionError(f"not so: {expression}; the page shows: {text}") from None

    async def screenshot(self, path: Path) -> None:
        """Write what is to be seen as a PNG file."""
        answer = await self._call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, base64.b64decode(answer["data"]))

    async def _ask(self, expression: str) -> Any:
        answer = await self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    async def _call(self, method: str, **parameters: Any) -> JsonObject:
        self._count += 1
        await self._socket.send_json({"id": self._count, "method": method, "params": parameters})
        while (message := await self._socket.receive_json()).get("id") != self._count:
            self._take_event(message)
        assert "error" not in message, message
        result: JsonObject = message["result"]
        return result

    def _take_event(self, message: JsonObject) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                words = details.get("exception", {}).get("description") or details["text"]
                self.faults.append(f"exception: {words}")
            case "Runtime.consoleAPICalled" if parameters["type"] == "error":
                words = [str(a.get("value", a.get("description"))) for a in parameters["args"]]
                self.faults.append(f"console: {' '.join(words)}")
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                self.faults.append(f"log: {parameters['entry']['text']}")

    async def __aenter__(self) -> Self:
        for domain in ("Page", "Runtime", "Log"):
            await self._call(f"{domain}.enable")
        await self._call("Emulation.setDeviceMetricsOverride", **_VIEW)
        await self._call("Emulation.setEmulatedMedia", features=[_STILL])
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._socket.close()


@contextlib.asynccontextmanager
async def open_page(folder: Path) -> AsyncIterator[Page]:
    """The first page of a Chromium with a fresh profile in ``folder``."""
    program = shutil.which("chromium")
    assert program is not None, "no chromium: tests/e2e/install.sh installs it"
    profile = folder / "profile"
    with (folder / "chromium.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program,
            *_FLAGS,
            f"--user-data-dir={profile}",
            "about:blank",
            env=clean_environment(),
            stdout=log,
            stderr=log,
        )
    try:
        port = await asyncio.to_thread(_wait_for_port, profile / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
                (target,) = [one for one in await response.json() if one["type"] == "page"]
            socket = session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0)
            async with socket as connected, Page(connected) as page:
                yield page
    finally:
        process.terminate()
        await process.wait()


def _wait_for_port(path: Path) -> int:
    wait_until(
        lambda: path.exists() and "\n" in path.read_text(), _START_SECONDS, "DevTools listen"
    )
    return int(path.read_text().splitlines()[0])
