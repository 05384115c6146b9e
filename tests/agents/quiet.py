"""Keeps coding agents to this machine: no look for updates, no report of their use, none left."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("CODEX_SETTINGS", "GEMINI_SETTINGS", "end_left", "keep_quiet")

CODEX_SETTINGS = "[features]\nplugins = false\n[analytics]\nenabled = false\n"
"""Codex would look for plugins on GitHub, and tell of its use."""

GEMINI_SETTINGS: JsonObject = {"privacy": {"usageStatisticsEnabled": False}}

_AIDER_PRICES = ".aider/caches/model_prices_and_context_window.json"
"""Prices of models, below the home; without the file aider would fetch them."""

_CLINE_SETTINGS = '{"telemetryOptOut": true}'
"""Settings of cline, which would try for ten seconds to report its use."""

_QWEN_SETTINGS = '{"general": {"enableAutoUpdate": false}}'
"""Settings of qwen-code, which has no variable to switch its updates off."""

_VARIABLES = {
    "AIDER_ANALYTICS_DISABLE": "true",
    "AIDER_CHECK_UPDATE": "false",
    "AIDER_SHOW_RELEASE_NOTES": "false",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLINE_NO_AUTO_UPDATE": "1",
    "COPILOT_AUTO_UPDATE": "false",
    "COPILOT_OFFLINE": "true",
    "DO_NOT_TRACK": "1",
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "GROK_DISABLE_AUTOUPDATER": "1",
    "GROK_TELEMETRY_ENABLED": "false",
    "KIMI_CODE_NO_AUTO_UPDATE": "1",
    "KIMI_DISABLE_TELEMETRY": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "PI_OFFLINE": "1",
    "QWEN_USAGE_STATISTICS_ENABLED": "false",
    "npm_config_offline": "true",  # opencode installs a package for plugins
}


def keep_quiet(home: Path) -> dict[str, str]:
    """Write what is to be below their home; the variables that they need."""
    files = {
        _AIDER_PRICES: '{"gpt-demo": {}}',
        ".cline/data/settings/global-settings.json": _CLINE_SETTINGS,
        ".qwen/settings.json": _QWEN_SETTINGS,
    }
    for name, text in files.items():
        file = home / name
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
    return _VARIABLES | {"HOME": str(home)}


def end_left(home: Path) -> None:
    """End processes that an agent has left behind, those of its home: cline's hub starts late."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            variables = (path / "environ").read_bytes().split(b"\0")
            is_ours = b"proxy.processes" in (path / "cmdline").read_bytes()
            if f"HOME={home}".encode() in variables and not is_ours:
                os.kill(int(path.name), signal.SIGTERM)
