"""Where the store is, for commands that need to know nothing else.

Settings are checked by a library that takes a tenth of a second to import. Where nothing but the
store is named, there is nothing to check.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxy.settings.default_store import DEFAULT_STORE

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("find_store",)

_VARIABLE = "SPANTAP_STORE"
_CONFIG = "SPANTAP_CONFIG"


def find_store(flags: Mapping[str, Any], config: str | None = None) -> Path:
    """Find the store where :func:`proxy.settings.settings.load_settings` does.

    Args:
        flags: ``store`` where it was given on the command line.
        config: path of the TOML file that was named there.

    Raises:
        ConfigurationError: any setting is wrong.
    """
    ours = {name: text for name, text in os.environ.items() if name.upper().startswith("SPANTAP_")}
    store = flags.get("store", ours.get(_VARIABLE, DEFAULT_STORE))
    is_all = not config and not ours.get(_CONFIG) and ours.keys() <= {_VARIABLE, _CONFIG}
    if is_all and (path := Path(store)).name:
        return path.expanduser()
    from proxy.settings.settings import load_settings  # noqa: PLC0415 - it also says what is wrong

    # Without the upstreams, whose keys are in no shell but that of `spantap serve`.
    return load_settings({**flags, "upstreams": ()}, config).store
