"""Keys of our own: read from settings and files, and never shown (R7)."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from proxy.configure import explain_exposed_keys, read_inbound_keys
from proxy.downstream.inbound_keys import MAX_FILE_BYTES, MAX_KEYS
from proxy.key_hashes import hash_keys
from proxy.settings.settings import Settings, load_settings
from proxy.settings.tables import UpstreamConfig
from telemetry.errors import ConfigurationError
from tests.proxy.canary_keys import DIGEST, HASHED, KEY, OTHER, opens, read

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPANTAP_CONFIG", "SPANTAP_INBOUND_KEYS", "SPANTAP_INBOUND_KEYS_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_without_keys_everybody_is_let_in() -> None:
    """The default: there is nothing to check against."""
    assert read_inbound_keys(Settings()) is None


@pytest.mark.parametrize("entry", [KEY, HASHED, f"sha256:{DIGEST.upper()}", f"  {KEY} "])
def test_a_key_may_be_given_plain_or_hashed(entry: str) -> None:
    """Either way the same digest is kept, and reading it again changes nothing."""
    settings = Settings(inbound_keys=(entry,))
    assert settings.inbound_keys == (HASHED,)
    assert hash_keys(settings.inbound_keys) == settings.inbound_keys
    assert opens(read(inbound_keys=[entry]), KEY)


def test_keys_of_the_environment_are_a_comma_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """``SPANTAP_INBOUND_KEYS``."""
    monkeypatch.setenv("SPANTAP_INBOUND_KEYS", f"{KEY}, {OTHER},")
    keys = read_inbound_keys(load_settings())
    assert keys is not None
    assert opens(keys, KEY)
    assert opens(keys, OTHER)


def test_keys_of_a_file_stand_beside_them(tmp_path: Path) -> None:
    """One a line, comments and blank lines left out; all of them open."""
    file = tmp_path / "keys"
    file.write_text(f"# of the team\n\n{OTHER}\n  {HASHED}  \n")
    keys = read(inbound_keys=["a-third-key-0123456789"], inbound_keys_file=file)
    assert len(keys.digests) == 3
    assert all(opens(keys, key) for key in (KEY, OTHER, "a-third-key-0123456789"))


BAD_ENTRIES = {
    "short-canary": "at least 16",
    "": "at least 16",
    "a canary with white space": "printable ASCII",
    "canary-\u00e9-0123456789": "printable ASCII",
    "sha256:canary": "64 hexadecimal digits",
    f"sha256:{DIGEST}0": "64 hexadecimal digits",
}


@pytest.mark.parametrize(("entry", "words"), BAD_ENTRIES.items())
def test_a_wrong_key_is_told_by_its_number_alone(entry: str, words: str, tmp_path: Path) -> None:
    """Neither the sentence nor what it was made of quotes the key."""
    config = tmp_path / "spantap.toml"
    config.write_text(f'inbound_keys = ["{KEY}", "{entry}"]', encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_settings(config=str(config))
    assert str(caught.value).startswith("setting 'inbound_keys': entry 2 ")
    assert words in str(caught.value)
    assert "canary" not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize("value", [7, [7]])
def test_what_is_no_list_of_keys_is_refused(value: object) -> None:
    """By the setting's name."""
    with pytest.raises(ConfigurationError, match="setting 'inbound_keys'"):
        load_settings({"inbound_keys": value})


@pytest.mark.parametrize("value", ["", " , "])
def test_a_variable_without_a_key_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody meant to ask for a key, and nobody would be asked; a list says the same."""
    monkeypatch.setenv("SPANTAP_INBOUND_KEYS", value)
    with pytest.raises(ConfigurationError, match="let everybody in"):
        load_settings()
    with pytest.raises(ConfigurationError, match="let everybody in"):
        load_settings({"inbound_keys": []})


@pytest.mark.parametrize("settings", [{}, {"inbound_keys": [KEY]}])
def test_what_is_handed_from_process_to_process_means_the_same(settings: dict[str, Any]) -> None:
    """That there are no keys, too, and is not taken for an empty list."""
    first = Settings(**settings)
    second = Settings.model_validate_json(first.model_dump_json())
    assert second.inbound_keys == first.inbound_keys
    assert read_inbound_keys(second) == read_inbound_keys(first)


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_a_file_of_keys_that_is_no_regular_file_is_refused(kind: str, tmp_path: Path) -> None:
    """The start would wait for somebody who writes into the FIFO."""
    file = tmp_path / "keys"
    if kind == "fifo":
        os.mkfifo(file)
    else:
        file.mkdir()
    with pytest.raises(ConfigurationError) as caught:
        read(inbound_keys_file=file)
    assert str(caught.value) == f"setting 'inbound_keys_file': {file} is not a regular file"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no key"),
        (b"# only words\n\n", "holds no key"),
        (b"# one\nshort-canary\n", "line 2 must be a key of at least 16"),
        (b"canary-\xff-0123456789", "line 1 must be printable ASCII"),
        (b"sha256:canary", "line 1 begins with 'sha256:'"),
        (b"#" * (MAX_FILE_BYTES + 1), "is larger than"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_wrong_file_is_told_by_its_line_alone(
    content: bytes | None, words: str, tmp_path: Path
) -> None:
    """No key is quoted, and one without characters is refused."""
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        read(inbound_keys_file=file)
    assert str(caught.value).startswith(f"setting 'inbound_keys_file': {file}")
    assert words in str(caught.value)
    assert "canary" not in str(caught.value)


def test_too_many_keys_are_refused() -> None:
    """All of them are hashed and kept (R5)."""
    entries = [f"{KEY}-{number}" for number in range(MAX_KEYS + 1)]
    assert len(read(inbound_keys=entries[1:]).digests) == MAX_KEYS
    with pytest.raises(ConfigurationError, match=f"more than {MAX_KEYS}"):
        read(inbound_keys=entries)


def test_neither_keys_nor_digests_are_shown() -> None:
    """In no representation, and a plain key nowhere at all."""
    settings = Settings(inbound_keys=(KEY,))
    shown = f"{settings!r} {settings!s} {read_inbound_keys(settings)!r}"
    assert KEY not in shown
    assert DIGEST not in shown
    assert KEY not in settings.model_dump_json()


# The warning at the start


@pytest.mark.parametrize(
    ("host", "held", "keys", "warns"),
    [
        ("0.0.0.0", True, None, True),
        ("::", True, None, True),
        ("10.1.2.3", True, None, True),
        ("proxy.internal", True, None, True),
        ("", True, None, True),
        ("127.0.0.1", True, None, False),
        ("127.9.9.9", True, None, False),
        ("::1", True, None, False),
        ("localhost", True, None, False),
        ("0.0.0.0", False, None, False),
        ("0.0.0.0", True, (KEY,), False),
    ],
)
def test_a_held_key_on_an_open_port_is_warned_of(
    host: str,
    held: bool,
    keys: tuple[str, ...] | None,
    warns: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only where all three are so: a held key, a host that others reach, nobody asked for a key."""
    monkeypatch.setenv("HELD_KEY", "sk-held-canary")
    tables = [UpstreamConfig(name="groq", url="http://h", api_key_env="HELD_KEY" if held else None)]
    settings = Settings(host=host, upstreams=tuple(tables), inbound_keys=keys)
    words = explain_exposed_keys(settings)
    assert (words is not None) is warns
    if words is not None:
        assert re.search(r"spends the key of 'groq'.*SPANTAP_INBOUND_KEYS", words)
        assert "canary" not in words


def test_a_file_of_keys_is_enough_against_the_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read when the port is opened."""
    monkeypatch.setenv("HELD_KEY", "sk-held-canary")
    tables = (UpstreamConfig(name="groq", url="http://h", api_key_env="HELD_KEY"),)
    settings = Settings(host="0.0.0.0", upstreams=tables, inbound_keys_file=tmp_path / "keys")
    assert explain_exposed_keys(settings) is None
