"""``spantap page``: opens the page of a store in the browser, with or without a proxy.

A store has one page: if a proxy or another command serves it already, that one is opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import webbrowser
from typing import TYPE_CHECKING, Final

from proxy.downstream.listening import listen
from proxy.escape import escape_line
from proxy.page_access.address import PageAddress, find_page
from proxy.page_access.digests import describe_way_in, find_digest, make_ticket
from proxy.processes.page_listener import page_url
from proxy.processes.page_port import without_secrets
from proxy.processes.scratch import settings_file
from proxy.settings.spans import hand_over
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from pathlib import Path

    from proxy.settings.settings import Settings

_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
"""On Linux a browser can be shown only if one of these variables is set."""


def run_page(settings: Settings, *, port: int | None, opens_browser: bool) -> int:
    """Open the page of the store, and serve it here if nobody does; return the exit status.

    Raises:
        ConfigurationError: the port is taken, or there is no token that can be trusted.
    """
    if not settings.store.exists():
        _tell(f"there is no store at {settings.store}: nothing was recorded there yet")
        return 1
    found = find_page(settings.store) if port is None else None
    if found is not None:
        _tell(f"the page of this store is served already (process {found.pid})")
        _show(settings, found, opens_browser=opens_browser)
        return 0
    with _listen(settings, port) as listener:
        address = PageAddress.of(page_url(listener), find_digest(*_token_of(settings)))
        showing = threading.Thread(
            # On a thread: some browsers run until they are closed, and we must serve them.
            target=_show,
            args=(settings, address),
            kwargs={"opens_browser": opens_browser},
            daemon=True,
        )
        showing.start()
        _serve(settings, listener)
    return 0


def open_page_for_launch(settings: Settings) -> Iterator[str]:
    """Open the page of a store that a proxy has, served by a process that outlasts this command.

    The user looks at the calls when the command has ended. The page ends when nobody watches.

    Yields:
        Sentences for the user.
    """
    found = find_page(settings.store)
    if found is None:
        with _listen(settings, None) as listener:
            found = PageAddress.of(page_url(listener), find_digest(*_token_of(settings)))
            _start(settings, listener)
    yield f"the page is at {_way_in(settings, found)}"
    if not _open_browser(settings, found):
        yield _NO_BROWSER


def _show(settings: Settings, page: PageAddress, *, opens_browser: bool) -> None:
    _tell(f"the page is at {_way_in(settings, page)}")
    if opens_browser and not _open_browser(settings, page):
        _tell(_NO_BROWSER)


_NO_BROWSER: Final = "no browser can be opened from here: open the address yourself"


def _token_of(settings: Settings) -> tuple[str | None, Path]:
    return settings.page_token, settings.store


def _way_in(settings: Settings, page: PageAddress) -> str:
    """Say where the page is, and how to open it.

    Raises:
        ConfigurationError: the file of the token cannot be trusted.
    """
    if not page.proof:
        return page.url
    digest = find_digest(*_token_of(settings))
    if digest is None or not page.fits(digest):
        return f"{page.url} (it asks for a token that is not known here)"
    has_reader = sys.stderr.isatty()
    return describe_way_in(*_token_of(settings), page.url, to_person=has_reader)


def _open_browser(settings: Settings, page: PageAddress) -> bool:
    """Open a browser; return whether there is one.

    It gets a ticket, which is valid once (:mod:`proxy.page.token`), because other users of the
    machine can read the arguments of every program.
    """
    if sys.platform == "linux" and not any(os.environ.get(name) for name in _DISPLAYS):
        return False  # only a browser for terminals would be found, and we use the terminal
    digest = find_digest(*_token_of(settings)) if page.proof else None
    way_in = f"/#token={make_ticket(digest)}" if digest is not None and page.fits(digest) else "/"
    with contextlib.suppress(webbrowser.Error, OSError):
        return webbrowser.open(page.url + way_in)
    return False


def _listen(settings: Settings, port: int | None) -> contextlib.closing[socket.socket]:
    """Bind the given port, else that of the settings or any free one.

    Raises:
        ConfigurationError: the port cannot be bound.
    """
    if port is not None:
        return contextlib.closing(listen("page", settings.page_host, port))
    with contextlib.suppress(ConfigurationError):
        return contextlib.closing(listen("page", settings.page_host, settings.page_port))
    return contextlib.closing(listen("page", settings.page_host, 0))


def _serve(settings: Settings, listener: socket.socket) -> None:
    """Serve the page here until a signal comes."""
    from proxy.logging.logs import set_up_logging  # noqa: PLC0415 - only needed to serve
    from proxy.page.page_settings import PageSettings  # noqa: PLC0415
    from proxy.page.serving import serve_alone  # noqa: PLC0415

    set_up_logging(settings.log_level, settings.log_format)
    for_page = PageSettings.decode(hand_over(settings, os.environ))
    asyncio.run(serve_alone(for_page, listener, stays=True))


def _start(settings: Settings, listener: socket.socket) -> None:
    """Start a process that serves the page."""
    with settings_file(settings.store, hand_over(settings, os.environ)) as file:
        descriptors = [file.fileno(), listener.fileno()]
        process = subprocess.Popen(  # noqa: S603 - a program of ours
            [
                *(sys.executable, "-P", "-m", "proxy.page.process"),
                *map(str, descriptors),
                "alone",
            ],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # it outlasts the terminal
            env=without_secrets(os.environ),
        )
    process.returncode = 0  # nobody waits for it, and Python must not warn of that


def _tell(sentence: str) -> None:
    with contextlib.suppress(OSError):
        print(f"spantap: {escape_line(sentence)}", file=sys.stderr)  # noqa: T201 - its voice
