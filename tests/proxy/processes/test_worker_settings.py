"""``proxy.settings.worker``: settings as a worker gets them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from codec.usage_option import UsagePolicy
from proxy.on_disconnect import OnDisconnect
from proxy.settings.settings import Settings
from proxy.settings.tables import UpstreamConfig
from proxy.settings.worker import WorkerSettings
from proxy.upstream_entry import UpstreamEntry
from telemetry.spans.keep_rules import KeepReason

if TYPE_CHECKING:
    import pytest

KEY = "abcdefghijklmnopqrstuvwxyz"


def test_what_is_handed_over_is_what_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each setting of the worker has the value, and the type, that reading them gave."""
    monkeypatch.setenv("A_KEY", "secret")
    read = Settings(
        upstreams=(
            UpstreamConfig(name="a", url="https://h/v1", prefix="/a", api_key_env="A_KEY"),
            UpstreamConfig(name="b", url="http://h", usage=UsagePolicy.NEVER, provider="p"),
        ),
        ca_file=tmp_path / "ca.pem",
        inbound_keys=(KEY,),
        keep=frozenset({KeepReason.ERRORS}),
        on_disconnect=OnDisconnect.DRAIN,
        headers={"x-user": "user.id"},
    )
    handed = WorkerSettings.decode(read.model_dump_json().encode())
    for name in WorkerSettings.__struct_fields__:
        value, wanted = getattr(handed, name), getattr(read, name)
        if name == "upstreams":
            value = tuple(map(msgspec.structs.asdict, value))
            wanted = tuple(table.model_dump() for table in wanted)
        assert (value, type(value)) == (wanted, type(wanted)), name
    assert isinstance(handed.ca_file, Path)
    assert UpstreamEntry.__struct_fields__ == tuple(UpstreamConfig.model_fields)


def test_no_digest_of_a_key_is_shown() -> None:
    """R7: an error's words may hold whatever is shown of an object."""
    read = Settings(inbound_keys=(KEY,))
    assert "sha256" not in repr(WorkerSettings.decode(read.model_dump_json().encode()))
