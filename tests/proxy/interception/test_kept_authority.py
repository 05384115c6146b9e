"""The authority beside the store: it stays, nobody else reads it, none overwrites another's."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from proxy.interception import kept_authority
from proxy.interception.hosts import read_hosts
from proxy.interception.interception import TunnelReason
from proxy.interception.kept_authority import (
    authority_folder,
    build_interception,
    certificate_path,
    find_authority,
    keep_authority,
    list_hosts,
    load_authority,
    remove_authority,
    renew_authority,
)
from telemetry.errors import ConfigurationError
from tests.proxy.interception.intercepting import HOST, OTHER_HOST, intercepting, run_authority
from tests.proxy.interception.test_opened import call_bytes, exchange

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Path:
    return tmp_path / "traces.db"


def truth(store: Path) -> Path:
    return authority_folder(store) / "authority.json"


def at_once(act: Callable[[int], object], count: int = 8) -> None:
    """Do something in several threads, which begin together."""
    begin = threading.Barrier(count)

    def wait_and_act(number: int) -> None:
        begin.wait()
        act(number)

    threads = [threading.Thread(target=wait_and_act, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_it_is_made_once_for_its_owner_alone(store: Path) -> None:
    """For a year and these hosts, whatever the mask; and it is the same after a restart."""
    mask = os.umask(0)
    try:
        kept = keep_authority(store, [HOST])
    finally:
        os.umask(mask)
    folder = authority_folder(store)
    assert folder == store.parent / "traces.db.ca"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        "authority.json": 0o600,
        "ca.pem": 0o600,
    }
    assert certificate_path(store).read_text() == kept.certificate
    assert "PRIVATE KEY" not in certificate_path(store).read_text()
    assert len(kept.secret) >= 43  # 32 random bytes
    assert keep_authority(store, [OTHER_HOST]) == find_authority(store) == kept
    authority = load_authority(store, kept)
    assert authority.hosts == {HOST}
    assert keep_authority(store.with_name("other.db"), [HOST]) != kept


def test_a_link_to_the_store_has_the_same_one(store: Path) -> None:
    """As all files beside a store."""
    store.touch()
    link = store.with_name("link.db")
    link.symlink_to(store)
    assert keep_authority(link, [HOST]) == keep_authority(store, [HOST])


def test_all_who_make_it_at_once_have_the_same(store: Path) -> None:
    """Two machines may share the folder; the first one stays."""
    found = []
    at_once(lambda _: found.append(keep_authority(store, [HOST])))
    assert len({kept.certificate for kept in found}) == 1
    assert certificate_path(store).read_text() == found[0].certificate
    assert len([*authority_folder(store).iterdir()]) == 2


def test_after_renewals_at_once_the_certificate_is_that_of_the_key(store: Path) -> None:
    """Whoever comes last; the secret stays, and meanwhile nobody reads half a file."""
    secret = keep_authority(store, [HOST]).secret

    def renew_or_read(number: int) -> None:
        for _ in range(3):
            kept = keep_authority(store, [HOST]) if number % 2 else renew_authority(store, [HOST])
            load_authority(store, kept)

    at_once(renew_or_read)
    kept = find_authority(store)
    assert kept is not None
    assert kept.secret == secret
    assert certificate_path(store).read_text() == kept.certificate
    assert len([*authority_folder(store).iterdir()]) == 2


@pytest.mark.parametrize("content", [None, "of an earlier authority"])
def test_a_certificate_that_a_killed_process_did_not_write_is_written(
    store: Path, content: str | None
) -> None:
    """The file for programs follows the one that counts."""
    kept = keep_authority(store, [HOST])
    path = certificate_path(store)
    path.unlink()
    if content is not None:
        path.write_text(content)
    assert keep_authority(store, [HOST]) == kept
    assert path.read_text() == kept.certificate


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_key_that_others_could_read_is_not_used(store: Path, mode: int) -> None:
    """The sentence says what to do; a renewal replaces key and secret."""
    kept = keep_authority(store, [HOST])
    truth(store).chmod(mode)
    for use in (find_authority, lambda store: keep_authority(store, [HOST])):
        with pytest.raises(ConfigurationError, match=f"remove {authority_folder(store)}"):
            use(store)
    renewed = renew_authority(store, [HOST])
    assert renewed.secret != kept.secret
    assert renewed.key != kept.key
    assert truth(store).stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("part", ["authority.json", "ca.pem", ""])
def test_what_belongs_to_another_user_is_not_used(store: Path, part: str) -> None:
    """That user may have the key, or change the certificate that programs trust."""
    keep_authority(store, [HOST])
    os.chown(authority_folder(store) / part, 12345, -1)
    with pytest.raises(ConfigurationError, match="belongs to user 12345"):
        keep_authority(store, [HOST])


def test_a_folder_that_is_a_link_is_not_used(store: Path) -> None:
    """Where it leads is not for us to say."""
    (store.parent / "elsewhere").mkdir(mode=0o700)
    authority_folder(store).symlink_to(store.parent / "elsewhere")
    for use in (lambda: keep_authority(store, [HOST]), lambda: remove_authority(store)):
        with pytest.raises(ConfigurationError, match="symbolic link"):
            use()
    assert [*(store.parent / "elsewhere").iterdir()] == []


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"certificate":"c4n4ry"'])
def test_a_damaged_file_is_replaced_by_a_renewal(store: Path, content: bytes) -> None:
    """Nothing of it is quoted."""
    keep_authority(store, [HOST])
    truth(store).write_bytes(content)
    with pytest.raises(ConfigurationError, match="spantap ca renew") as caught:
        keep_authority(store, [HOST])
    assert "c4n4ry" not in str(caught.value)
    assert renew_authority(store, [HOST]) == keep_authority(store, [OTHER_HOST])


def test_a_key_of_another_authority_is_damage(store: Path) -> None:
    """Clients would refuse all that it signs."""
    kept = keep_authority(store, [HOST])
    other = keep_authority(store.with_name("other.db"), [HOST])
    mixed = kept_authority.KeptAuthority(
        certificate=kept.certificate, key=other.key, secret=kept.secret
    )
    with pytest.raises(ConfigurationError, match="damaged"):
        load_authority(store, mixed)


def test_a_folder_that_cannot_be_made_is_named(store: Path) -> None:
    """Where a file has its name, for example."""
    store.parent.joinpath("file").touch()
    with pytest.raises(ConfigurationError, match=r"cannot be kept in .*file/traces.db.ca"):
        keep_authority(store.parent / "file" / "traces.db", [HOST])


def test_it_is_removed_with_all_that_was_made_for_it(store: Path) -> None:
    """Also what a killed process has left; nothing is left of the folder."""
    keep_authority(store, [HOST])
    (authority_folder(store) / ".authority.json.0123").write_text("unfinished")
    assert remove_authority(store)
    assert not remove_authority(store)
    assert find_authority(store) is None
    assert [*store.parent.iterdir()] == []


def test_a_port_gets_the_model_hosts_and_those_of_the_settings(store: Path) -> None:
    """Nothing of it is shown, and no launch has its calls."""
    kept = keep_authority(store, list_hosts([]))
    interception = build_interception(store, ["Llm.Gateway.Example"])
    assert interception.hosts == read_hosts() | {"llm.gateway.example"}
    assert (interception.secret, interception.label) == (kept.secret, "")
    assert interception.ca_certificate.decode() == kept.certificate
    for shown in (repr(kept), repr(interception)):
        assert kept.secret not in shown
        assert "BEGIN" not in shown


def test_a_host_of_the_settings_that_may_not_be_opened_is_refused(store: Path) -> None:
    """With the name of the setting."""
    with pytest.raises(ConfigurationError, match=r"setting 'intercept_hosts': 'github.com' is a"):
        list_hosts(["github.com"])


async def test_a_host_that_its_authority_does_not_cover_is_tunnelled() -> None:
    """As one that a later version lists, until the authority is renewed."""
    covered = "covered.test"
    async with intercepting(
        hosts=(HOST, f"eu.{covered}", covered), authority=run_authority(covered)
    ) as it:
        assert (await exchange(await it.secure(), call_bytes())).status == 200
        [row] = it.port.report().tunnelled
        assert (row.host, row.reason) == (HOST, TunnelReason.NOT_COVERED)
        assert it.running.sink.frames == []
        for host in (f"eu.{covered}", covered):
            assert it.port._state.find_tunnel_reason(host, 443) is None
