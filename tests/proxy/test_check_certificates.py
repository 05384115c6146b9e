"""What ``spantap check`` says of certificates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from proxy.commands.check.certificates import check_certificates, read_expiry_dates
from proxy.commands.check.findings import Verdict
from proxy.settings.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.commands.check.findings import Finding

NOW = datetime.now(UTC)


def look(**settings: Any) -> list[Finding]:
    return list(check_certificates(Settings(**settings)))


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def issue(authority: trustme.CA, folder: Path, days: int) -> Path:
    """A file with key and chain that ends so many days from now."""
    path = folder / f"{days}.pem"
    begins, ends = NOW - timedelta(days=300), NOW + timedelta(days=days)
    issued = authority.issue_cert("localhost", not_before=begins, not_after=ends)
    issued.private_key_and_cert_chain_pem.write_to_path(str(path))
    return path


def test_without_certificates_there_is_nothing_to_say() -> None:
    """The system's authorities are its own."""
    assert look() == []


@pytest.mark.parametrize("setting", ["client_cert", "tls_cert"])
@pytest.mark.parametrize(
    ("days", "verdict", "words"),
    [
        (90, Verdict.GOOD, "is good until"),
        (10, Verdict.NOTE, "ends on"),
        (-2, Verdict.BAD, "ended"),
    ],
)
def test_a_certificate_of_ours_is_judged_by_its_end(
    setting: str, days: int, verdict: Verdict, words: str, authority: trustme.CA, tmp_path: Path
) -> None:
    """Of the file's certificates the one that ends first counts."""
    path = issue(authority, tmp_path, days)
    [found] = look(**{setting: path})
    assert (found.what, found.verdict) == (setting, verdict)
    assert words in found.words
    assert f"{NOW + timedelta(days=days):%Y-%m-%d}" in found.words


def test_authorities_are_bad_only_where_all_have_ended(
    authority: trustme.CA, tmp_path: Path
) -> None:
    """Old ones among them are of no harm, and told of."""
    good, ended = (issue(authority, tmp_path, days) for days in (90, -2))
    [found] = look(ca_file=good)
    assert found.verdict is Verdict.GOOD
    [found] = look(ca_file=ended)
    assert found.verdict is Verdict.BAD
    both = tmp_path / "both.pem"
    both.write_bytes(good.read_bytes() + ended.read_bytes())
    [found] = look(ca_file=both)
    assert found.verdict is Verdict.NOTE
    assert "holds one that ended on" in found.words


@pytest.mark.parametrize("setting", ["ca_file", "client_cert", "tls_cert"])
def test_a_file_that_cannot_be_used_is_bad(setting: str, tmp_path: Path) -> None:
    """In the words of ``serve``, which would not start."""
    [found] = look(**{setting: tmp_path / "missing.pem"})
    assert found.verdict is Verdict.BAD
    assert setting in found.words


@pytest.mark.parametrize("side", ["client", "tls"])
def test_a_key_with_a_password_is_told_to_have_one(
    side: str, authority: trustme.CA, tmp_path: Path
) -> None:
    """In words, without places in the source of OpenSSL."""
    issued = authority.issue_cert("localhost")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    chain, encrypted = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(str(chain))
    encrypted.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"canary"))
    )
    [found] = look(**{f"{side}_cert": chain, f"{side}_key": encrypted})
    assert found.verdict is Verdict.BAD
    assert found.words == (
        f"setting '{side}_cert': {chain} with '{side}_key': {encrypted} has a password; "
        "give a key without one"
    )


def test_a_file_without_plain_certificates_is_told_of(
    authority: trustme.CA, tmp_path: Path
) -> None:
    """OpenSSL takes further forms, whose end is not looked for."""
    path = issue(authority, tmp_path, 90)
    text = path.read_text().replace("N CERTIFICATE", "N X509 CERTIFICATE")
    path.write_text(text.replace("D CERTIFICATE", "D X509 CERTIFICATE"))
    [found] = look(client_cert=path)
    assert found.verdict is Verdict.NOTE
    assert "no certificate is found" in found.words


def test_ends_are_read_in_both_of_their_forms(authority: trustme.CA, tmp_path: Path) -> None:
    """With two digits of the year up to 2049, with four from 2050 on (RFC 5280, 4.1.2.5)."""
    for year in (2049, 2051):
        ends = datetime(year, 3, 4, 5, 6, 7, tzinfo=UTC)
        issued = authority.issue_cert("localhost", not_after=ends)
        assert read_expiry_dates(issued.cert_chain_pems[0].bytes()) == [ends]


@pytest.mark.parametrize("body", [b"", b"AAAA", b"MAMCAQE=", b"!", b"MIIBMIIB", b"/////////w=="])
def test_what_is_no_certificate_has_no_end(body: bytes) -> None:
    """And raises nothing."""
    pem = b"-----BEGIN CERTIFICATE-----\n" + body + b"\n-----END CERTIFICATE-----\n"
    assert read_expiry_dates(pem) == []
