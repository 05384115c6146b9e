"""``spantap env``: variables that send a shell's calls to a proxy (``eval "$(spantap env)"``)."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

from proxy.escape import escape_line
from proxy.launches.bases import Bases
from proxy.launches.environment import Surroundings, fit_environment, look_around
from proxy.launches.joining import find_proxy
from proxy.own_address import build_url
from proxy.processes.launch_channel import Join, Joined

if TYPE_CHECKING:
    from proxy.settings.settings import Settings


def run_env(settings: Settings, name: str) -> int:
    """Print the variables for the running proxy, or for the default one, and return 0.

    No other variable is printed, and no base URL that has a key.
    """
    address = (settings.host, settings.port)
    around = look_around(os.environ, address)
    found = find_proxy(settings.store, Join(urls=around.wanted))
    if found is not None:
        joined = found.joined
        if not joined.stays:
            _tell(f"the proxy (process {joined.pid}) belongs to `spantap run`, and ends with it")
    else:
        _tell(
            f"no proxy runs on {settings.store}: these are for the default one, which "
            "`spantap serve` starts"
        )
        has_tls = settings.tls_cert is not None
        url = build_url(settings.host, settings.port, has_tls=has_tls)
        joined = Joined(pid=0, url=url, paths={}, stays=True, has_catalogue=False, privacy="")
        for variable, set_url in around.set_urls.items():
            if variable not in around.implied:
                _tell(f"{variable} is left as it is, {set_url}")
        left = dict.fromkeys(around.set_urls, "")
        around = Surroundings(set_urls={}, unusable=around.unusable | left)
    fitted = fit_environment(os.environ, around, Bases.of(joined, name), joined)
    for variable, text in fitted.items():
        print(f"export {variable}={shlex.quote(text)}")  # noqa: T201 - what was asked for
    return 0


def _tell(sentence: str) -> None:
    print(f"spantap env: {escape_line(sentence)}", file=sys.stderr)  # noqa: T201
