"""What ``spantap check`` says of the page."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from proxy.commands.check.findings import Verdict
from proxy.commands.check.ports import check_page
from proxy.page_access.address import PageAddress, announcing_page
from proxy.page_access.token_file import read_token, token_path
from proxy.settings.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path


def look(store: Path, **settings: Any) -> list[tuple[Verdict, str]]:
    found = check_page(Settings(store=store, **settings))
    return [(finding.verdict, finding.words) for finding in found]


def test_a_free_port_is_good_and_nothing_is_made(tmp_path: Path) -> None:
    """Neither a token nor an address: somebody only asks."""
    assert look(tmp_path / "t.db", page_port=0) == [
        (Verdict.GOOD, "any free port of 127.0.0.1 is free")
    ]
    assert look(tmp_path / "t.db", page=False) == []
    assert list(tmp_path.iterdir()) == []


def test_a_taken_port_is_no_fault_of_the_proxy(tmp_path: Path) -> None:
    """It starts without a page; where the page is this store's own, all is well."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        [(verdict, words)] = look(tmp_path / "t.db", page_port=port)
        assert verdict is Verdict.NOTE
        assert "another program listens there" in words
        address = PageAddress.of(f"http://127.0.0.1:{port}", b"digest")
        with announcing_page(tmp_path / "t.db", address):
            [(verdict, words)] = look(tmp_path / "t.db", page_port=port)
        assert (verdict, address.url in words) == (Verdict.GOOD, True)


def test_a_token_that_others_know_is_told(tmp_path: Path) -> None:
    """So is that there is none."""
    read_token(tmp_path / "t.db")
    assert len(look(tmp_path / "t.db", page_port=0)) == 1
    token_path(tmp_path / "t.db").chmod(0o644)
    [_, (verdict, words)] = look(tmp_path / "t.db", page_port=0)
    assert (verdict, "other users can read or change it" in words) == (Verdict.NOTE, True)
    [_, (verdict, words)] = look(tmp_path / "t.db", page_port=0, page_token="none")
    assert (verdict, "asks for no token" in words) == (Verdict.NOTE, True)
