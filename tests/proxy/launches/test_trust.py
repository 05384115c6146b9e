"""The variables that make an interception trusted, and the files that they name."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from proxy.interception.authority import make_authority
from proxy.launches import trust
from proxy.launches.trust import Gives, build_trust, read_certificates, read_trust

if TYPE_CHECKING:
    from collections.abc import Mapping

URL = "http://spantap:secret@127.0.0.1:4321"
OURS, OUR_KEY = make_authority(["api.model.test"])
COMPANY, _ = make_authority(["corp.test"])
OTHERS, _ = make_authority(["others.test"])
SYSTEM, _ = make_authority(["com"])

_SYSTEM_NAMES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE")


def build(folder: Path, **environ: str) -> Mapping[str, str]:
    """The variables, on a system that trusts one authority."""
    files = folder / "files"
    files.mkdir()
    with patch.object(trust, "_read_system", lambda: SYSTEM):
        return build_trust(environ, URL, OURS, files)


def test_a_plain_environment_gets_the_system_s_certificates_and_ours(tmp_path: Path) -> None:
    """Where a file adds to what a program trusts, it has ours alone."""
    built = build(tmp_path)
    assert built["HTTPS_PROXY"] == built["https_proxy"] == URL
    assert built["NO_PROXY"] == built["no_proxy"] == "localhost,127.0.0.1,::1"
    assert built["NODE_USE_ENV_PROXY"] == "1"
    for name in _SYSTEM_NAMES:
        assert Path(built[name]).read_bytes() == SYSTEM + OURS
    for name in ("NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE"):
        assert Path(built[name]).read_bytes() == OURS
    assert "HTTP_PROXY" not in built
    assert "ALL_PROXY" not in built


@pytest.mark.parametrize(
    "row", [row for row in read_trust() if row.gives in (Gives.ADDED, Gives.BUNDLE)]
)
def test_what_the_user_trusts_stays_trusted(row: trust.TrustVariable, tmp_path: Path) -> None:
    """Each file holds what the user's variable names, and then ours."""
    (tmp_path / "company.pem").write_bytes(b"# the company's\n" + COMPANY)
    built = build(tmp_path, **{row.name: str(tmp_path / "company.pem")})
    assert Path(built[row.name]).read_bytes() == COMPANY + OURS


def test_a_variable_that_stands_in_for_another_is_heeded(tmp_path: Path) -> None:
    """Requests reads curl's variable if its own is not set; set, it would hide what that names."""
    (tmp_path / "company.pem").write_bytes(COMPANY)
    built = build(tmp_path, CURL_CA_BUNDLE=str(tmp_path / "company.pem"))
    assert Path(built["REQUESTS_CA_BUNDLE"]).read_bytes() == COMPANY + OURS
    assert Path(built["SSL_CERT_FILE"]).read_bytes() == SYSTEM + OURS


def test_certificates_in_a_folder_are_read(tmp_path: Path) -> None:
    """Once each, whatever else is there; a key that lies beside them is not copied."""
    folder = tmp_path / "certs"
    folder.mkdir()
    (folder / "a.pem").write_bytes(COMPANY + OUR_KEY)
    (folder / "0a1b2c3d.0").symlink_to("a.pem")
    (folder / "gone.pem").symlink_to("nowhere")
    (folder / "README").write_text("words")
    assert read_certificates(folder) == COMPANY
    built = build(tmp_path, SSL_CERT_DIR=str(folder))
    assert Path(built["SSL_CERT_FILE"]).read_bytes() == SYSTEM + COMPANY + OURS


def test_several_folders_of_certificates_are_read(tmp_path: Path) -> None:
    """With colons between them, as OpenSSL and Go have it."""
    for name, certificate in (("one", COMPANY), ("two", OTHERS)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.pem").write_bytes(certificate)
    built = build(tmp_path, SSL_CERT_DIR=f"{tmp_path}/one::{tmp_path}/two:/nowhere")
    assert Path(built["SSL_CERT_FILE"]).read_bytes() == SYSTEM + COMPANY + OTHERS + OURS


@pytest.mark.parametrize("name", ["nothing.pem", "words.pem"])
def test_a_file_without_certificates_counts_as_none(name: str, tmp_path: Path) -> None:
    """Programs that need one say so themselves."""
    (tmp_path / "words.pem").write_text("words")
    built = build(tmp_path, SSL_CERT_FILE=str(tmp_path / name))
    assert Path(built["SSL_CERT_FILE"]).read_bytes() == SYSTEM + OURS


def test_the_files_are_for_us_alone(tmp_path: Path) -> None:
    """And have no key."""
    build(tmp_path)
    files = list((tmp_path / "files").iterdir())
    assert len(files) == 6
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert b"PRIVATE" not in file.read_bytes()


@pytest.mark.parametrize(
    ("environ", "upper", "lower"),
    [
        ({"NO_PROXY": "corp.test"}, "corp.test", "corp.test"),
        ({"no_proxy": "corp.test, b"}, "corp.test,b", "corp.test,b"),
        ({"NO_PROXY": "a", "no_proxy": "b"}, "a", "b"),
    ],
)
def test_the_user_s_exceptions_stay(
    environ: dict[str, str], upper: str, lower: str, tmp_path: Path
) -> None:
    """In both spellings, because a program reads one of them."""
    built = build(tmp_path, **environ)
    ours = ",localhost,127.0.0.1,::1"
    assert (built["NO_PROXY"], built["no_proxy"]) == (upper + ours, lower + ours)


def test_an_exception_for_all_hosts_stays_alone(tmp_path: Path) -> None:
    """Beside other words, programs do not take it for a wildcard."""
    built = build(tmp_path, no_proxy="*")
    assert built["NO_PROXY"] == built["no_proxy"] == "*"


def test_the_system_s_certificates_are_found() -> None:
    """Those of the machine that runs this, or certifi's."""
    assert trust._read_system().count(b"-----BEGIN CERTIFICATE-----") > 20


def test_the_page_lists_each_variable() -> None:
    """In the order of the table, with its readers."""
    page = (Path(__file__).parents[3] / "docs" / "interception.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    listed = [(cells[0].strip("| `"), cells[-1].strip("| ")) for cells in rows if len(cells) == 3]
    assert listed == [(row.name, row.readers) for row in read_trust()]
