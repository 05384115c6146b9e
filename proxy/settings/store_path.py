"""Where the store is, for commands that need to know nothing else.

Settings are checked by a library that takes a tenth of a second to import. If only the store is
set, there is nothing to check.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_STORE = Path(platformdirs.user_state_dir("spantap")) / "traces.db"
"""The default of the setting ``store``."""

_VARIABLE = "SPANTAP_STORE"
_CONFIG = "SPANTAP_CONFIG"


def find_store(flags: Mapping[str, Any], config: str | None = None) -> Path | None:
    """Find the store where :func:`proxy.settings.settings.load_settings` does.

    Args:
        flags: has ``store`` if it was given on the command line.
        config: path of the TOML file that was named there.

    Returns:
        Its path; ``None`` if more than the store is set, or it is wrong: then load the settings.
    """
    ours = {name: text for name, text in os.environ.items() if name.upper().startswith("SPANTAP_")}
    if config or ours.get(_CONFIG) or not ours.keys() <= {_VARIABLE, _CONFIG}:
        return None
    path = Path(flags.get("store", ours.get(_VARIABLE, DEFAULT_STORE)))
    return path.expanduser() if path.name else None
