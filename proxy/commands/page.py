"""``spantap page``: the page of a store, with or without a proxy, in the browser.

Rules:

1. A store has one page: where one is served already, by a proxy or another command, that is opened.
2. The browser is opened with a ticket, which holds once (:mod:`proxy.page.token`): other users of
   the machine see the arguments of every program.
3. A page that ``spantap run --page`` starts outlasts the command, whose calls are looked at when it
   has ended; it ends when nobody watches.
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
"""Variables of which one is set on Linux where a browser has somewhere to show itself."""


def run_page(settings: Settings, *, port: int | None, opens_browser: bool) -> int:
    """Open the page of the store, and serve it here if nobody does; the exit status.

    Raises:
        ConfigurationError: the port is taken, or there is no token that could be trusted.
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
            # Some browsers run until they are closed, and ours has to be answered.
            target=_show,
            args=(settings, address),
            kwargs={"opens_browser": opens_browser},
            daemon=True,
        )
        showing.start()
        _serve(settings, listener)
    return 0


def open_page_for_run(settings: Settings) -> Iterator[str]:
    """Open the page of a store that a proxy has, served by a process that outlasts us (rule 3).

    Yields:
        What the user is told.
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
    """Say where it is, and how one gets in.

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
    """Open a browser with a ticket (rule 2); returns whether there is one."""
    if sys.platform == "linux" and not any(os.environ.get(name) for name in _DISPLAYS):
        return False  # what would be found is one for terminals, which are ours
    digest = find_digest(*_token_of(settings)) if page.proof else None
    way_in = f"/#token={make_ticket(digest)}" if digest is not None and page.fits(digest) else "/"
    with contextlib.suppress(webbrowser.Error, OSError):
        return webbrowser.open(page.url + way_in)
    return False


def _listen(settings: Settings, port: int | None) -> contextlib.closing[socket.socket]:
    """Bind the port: the one that is wanted, else that of the settings or any that is free.

    Raises:
        ConfigurationError: it cannot be had.
    """
    if port is not None:
        return contextlib.closing(listen("page", settings.page_host, port))
    with contextlib.suppress(ConfigurationError):
        return contextlib.closing(listen("page", settings.page_host, settings.page_port))
    return contextlib.closing(listen("page", settings.page_host, 0))


def _serve(settings: Settings, listener: socket.socket) -> None:
    """Serve the page here, until a signal says to end."""
    from proxy.logging.logs import set_up_logging  # noqa: PLC0415 - only who serves needs it
    from proxy.page.page_settings import PageSettings  # noqa: PLC0415
    from proxy.page.serving import serve_alone  # noqa: PLC0415

    set_up_logging(settings.log_level, settings.log_format)
    told = PageSettings.decode(hand_over(settings, os.environ))
    asyncio.run(serve_alone(told, listener, stays=True))


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
    process.returncode = 0  # it is nobody's child to wait for


def _tell(sentence: str) -> None:
    with contextlib.suppress(OSError):
        print(f"spantap: {escape_line(sentence)}", file=sys.stderr)  # noqa: T201 - its voice
