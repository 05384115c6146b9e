"""Can the page be served, or is it already?"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from proxy.commands.check_findings import good, note
from proxy.downstream.listening import bind, name_other_port
from proxy.page_access.address import find_page
from proxy.page_access.digests import NO_TOKEN
from proxy.page_access.token_file import read_token, token_path
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.commands.check_findings import Finding
    from proxy.settings.settings import Settings

_WHAT = "page"


def check_page(settings: Settings) -> Iterator[Finding]:
    """Check the page's port and its token; nothing is made that is not there yet."""
    if not settings.page:
        return
    found = find_page(settings.store)
    if found is not None:
        yield good(_WHAT, f"the page of this store is at {found.url} (process {found.pid})")
    else:
        yield _look_at_port(settings)
    if settings.page_token == NO_TOKEN:
        mend = "leave SPANTAP_PAGE_TOKEN out, unless you are alone on this machine"
        yield note(_WHAT, "asks for no token: whoever can connect sees all calls", mend)
    elif settings.page_token is None and os.path.lexists(token_path(settings.store)):
        try:
            read_token(settings.store)
        except ConfigurationError as error:
            yield note(_WHAT, f"there would be none: {error}", "see docs/page.md")


def _look_at_port(settings: Settings) -> Finding:
    """Find out what `spantap serve` would say; without its port it starts all the same."""
    host, port = settings.page_host, settings.page_port
    try:
        bind(_WHAT, host, port).close()
    except ConfigurationError as error:
        mend = f"{name_other_port(_WHAT)}, or do without it (SPANTAP_PAGE=false)"
        return note(_WHAT, f"there would be none: {error}", mend)
    where = f"{host}:{port}" if port else f"any free port of {host}"
    return good(_WHAT, f"{where} is free")
