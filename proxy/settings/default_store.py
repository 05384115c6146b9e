"""Where the store is by default."""

from __future__ import annotations

from pathlib import Path

import platformdirs

__all__ = ("DEFAULT_STORE",)

DEFAULT_STORE = Path(platformdirs.user_state_dir("spantap")) / "traces.db"
"""The default of the setting ``store``."""
