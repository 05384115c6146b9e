"""``telemetry.span_identity``: what the settings name, without the SDK."""

from __future__ import annotations

import os
import subprocess
import sys

from telemetry.span_identity import TraceParentPolicy


def test_names_are_those_of_the_setting() -> None:
    """They are written in configuration files and never change."""
    assert [policy.value for policy in TraceParentPolicy] == ["honor", "link", "ignore"]


def test_settings_can_be_read_before_the_sdk_is_imported() -> None:
    """With a limit that the SDK cannot be imported with, the policy can."""
    code = "import sys, telemetry.span_identity; sys.exit('opentelemetry' in sys.modules)"
    environ = os.environ | {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "abc"}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environ).returncode == 0
