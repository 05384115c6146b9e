"""The error of a wrong setting, apart from the settings: commands need it without their imports."""

from __future__ import annotations

__all__ = ("ConfigurationError",)


class ConfigurationError(Exception):
    """A setting is wrong; the message is one sentence that names it and says what to do."""
