"""``telemetry.privacy.path_keys``: paths without keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.privacy.path_keys import MAX_PATH_CHARS, hide_keys


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/openai/deployments/gpt-4o-2024-08-06/chat/completions",
        "/v1beta/models/gemini-2.5-flash-preview-05-20:streamGenerateContent",
        "/v1/projects/my-project/locations/us-central1/publishers/google/models/gemini-2.5-pro",
        "/groq/openai/v1/responses",
        "",
        "/",
    ],
)
def test_paths_of_models_stay(path: str) -> None:
    """Byte for byte."""
    assert hide_keys(path) == path


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/sk-proj-0123456789abcdefABCDEF/v1/chat/completions", "/…/v1/chat/completions"),
        ("/bot123456:AAF4h8Gk2mPqRs7TuVwX/v1/messages", "/…/v1/messages"),
        ("/v1/c0ffee00-1234-4abc-8def-0123456789ab/messages", "/v1/…/messages"),
        ("/v1/0123456789abcdef0123456789abcdef", "/v1/…"),
    ],
)
def test_what_looks_like_a_key_or_an_id_is_hidden(path: str, shown: str) -> None:
    """The part of the path, and no other."""
    assert hide_keys(path) == shown


@given(st.text(st.sampled_from("/abc1"), max_size=3 * MAX_PATH_CHARS))
def test_a_long_path_is_cut_behind_a_whole_part(path: str) -> None:
    """Half a key looks like none, so no part of a path that is cut is half a part."""
    shown = hide_keys(path)
    assert len(shown) <= MAX_PATH_CHARS + 2
    parts = path.split("/")
    assert all(one in {"…", whole} for one, whole in zip(shown.split("/"), parts, strict=False))
