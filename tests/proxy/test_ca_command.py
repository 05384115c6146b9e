"""``spantap ca``: what it shows, what it prints for programs, what it makes and removes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy.__main__ import main
from proxy.commands.ca import explain_limits
from proxy.commands.check.certificates import check_authority
from proxy.commands.check.findings import Verdict
from proxy.interception.authority import Authority, make_authority
from proxy.interception.hosts import read_hosts
from proxy.interception.kept_authority import (
    authority_folder,
    certificate_path,
    find_authority,
    keep_authority,
)
from proxy.settings.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = Callable[..., tuple[int, str, str]]

PORT = ("--intercept-port", "4903")


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Path:
    return tmp_path / "traces.db"


@pytest.fixture(name="ca")
def _ca(store: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Runs ``spantap ca``; returns status, output and complaints."""
    for name in ("NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        status = main(["ca", *words, "--store", str(store)])
        return status, *capfd.readouterr()

    return run


def exports(out: str) -> dict[str, str]:
    lines = [shlex.split(line) for line in out.splitlines()]
    assert all(line[0] == "export" and len(line) == 2 for line in lines)
    return {name: text for _, pair in lines for name, _, text in [pair.partition("=")]}


def test_without_an_authority_it_says_what_makes_one(ca: Command, store: Path) -> None:
    """And makes none."""
    status, out, err = ca()
    assert (status, out) == (1, "")
    assert "`spantap serve --intercept-port` makes one" in err
    assert ca("remove")[0] == 1
    assert [*store.parent.iterdir()] == []


def test_show_has_neither_secret_nor_key(ca: Command, store: Path) -> None:
    """But all by which somebody finds and compares the certificate."""
    kept = keep_authority(store, read_hosts())
    status, out, err = ca("show", *PORT)
    assert (status, err) == (0, "")
    assert ca(*PORT)[1] == out
    rows = dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines())
    authority = Authority(kept.certificate.encode(), kept.key.encode())
    assert rows["certificate"] == str(certificate_path(store))
    assert rows["valid until"].startswith(f"{authority.ends_at:%Y-%m-%d}, 364 days")
    assert rows["SHA-256"] == authority.fingerprint
    assert rows["hosts"] == str(len(read_hosts()))
    assert rows["port"] == "127.0.0.1:4903"
    assert "limit" not in rows
    assert kept.secret not in out
    assert "KEY" not in out


def test_show_names_hosts_that_the_authority_does_not_cover(
    ca: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is renewed; the secret stays, so that programs need only the new certificate."""
    kept = keep_authority(store, read_hosts())
    monkeypatch.setenv("SPANTAP_INTERCEPT_HOSTS", "llm.gateway.example")
    said = "limit        it does not cover llm.gateway.example, so calls there are not recorded"
    assert said in ca()[1]
    status, out, err = ca("renew")
    assert status == 0
    assert "limit" not in out
    assert "a new authority is made" in err
    renewed = find_authority(store)
    assert renewed is not None
    assert renewed.secret == kept.secret
    assert renewed.certificate != kept.certificate
    assert certificate_path(store).read_text() == renewed.certificate


@pytest.mark.parametrize(
    ("valid_days", "says"),
    [
        (60, []),
        (29, ["it ends on ...., and then no call is recorded"]),
        (0, ["it ended on ...."]),
    ],
)
def test_the_end_is_said_in_good_time(valid_days: int, says: list[str]) -> None:
    """A month before, and afterwards."""
    authority = Authority(*make_authority(["a.test"], valid_days=valid_days))
    said = [*explain_limits(authority, ["a.test"])]
    assert len(said) == len(says)
    for words, pattern in zip(said, says, strict=True):
        assert re.match(pattern.replace("....", r"\d{4}-\d\d-\d\d"), words)


def test_env_prints_the_way_and_the_trust(ca: Command, store: Path, tmp_path: Path) -> None:
    """It makes the authority if there is none; the files hold the certificate and no key."""
    status, out, err = ca("env", *PORT)
    assert (status, err) == (0, "")
    kept = find_authority(store)
    assert kept is not None
    found = exports(out)
    url = f"http://spantap:{kept.secret}@127.0.0.1:4903"
    assert found["HTTPS_PROXY"] == found["https_proxy"] == url
    assert "HTTP_PROXY" not in found
    assert found["NODE_EXTRA_CA_CERTS"].startswith(f"{authority_folder(store)}/")
    for name in ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        path = Path(found[name])
        assert kept.certificate in path.read_text()
        assert "PRIVATE KEY" not in path.read_text()
        assert path.stat().st_mode & 0o777 == 0o600
    assert ca("remove")[0] == 0
    assert [*tmp_path.iterdir()] == []


def test_env_in_a_shell_that_has_it_already_adds_nothing(
    ca: Command, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own certificates stay, and a renewal puts its authority in place of the old."""
    mine = tmp_path / "mine.pem"
    mine.write_bytes(make_authority(["mine.test"])[0])
    monkeypatch.setenv("SSL_CERT_FILE", str(mine))
    first = exports(ca("env", *PORT)[1])
    bundle = Path(first["SSL_CERT_FILE"])
    for name, text in first.items():
        monkeypatch.setenv(name, text)
    for renews in (False, True, False):
        if renews:
            ca("renew")
            assert bundle.read_text() == mine.read_text() + certificate_path(store).read_text()
        assert exports(ca("env", *PORT)[1]) == first
        kept = find_authority(store)
        assert kept is not None
        assert bundle.read_text() == mine.read_text() + kept.certificate


def test_env_needs_the_port(ca: Command) -> None:
    """Only the settings or a flag can name it."""
    status, out, err = ca("env")
    assert (status, out) == (2, "")
    assert "set SPANTAP_INTERCEPT_PORT or name it with --intercept-port" in err


@pytest.mark.parametrize("what", ["show", "env"])
def test_files_that_others_could_read_are_refused(what: str, ca: Command, store: Path) -> None:
    """In one sentence, without a traceback."""
    kept = keep_authority(store, ["a.test"])
    (authority_folder(store) / "authority.json").chmod(0o644)
    status, out, err = ca(what, *PORT)
    assert (status, out) == (2, "")
    assert err.startswith("spantap: the certificate authority is not used: ")
    assert err.count("\n") == 1
    assert kept.secret not in err


def test_check_judges_the_authority_and_makes_none(store: Path) -> None:
    """Only if there is to be a port."""
    assert [*check_authority(Settings(store=store))] == []
    settings = Settings(store=store, intercept_port=4903)
    [finding] = check_authority(settings)
    assert (finding.verdict, "makes one in" in finding.words) == (Verdict.GOOD, True)
    assert [*store.parent.iterdir()] == []
    keep_authority(store, read_hosts())
    [finding] = check_authority(settings)
    assert finding.verdict is Verdict.GOOD
    assert finding.words.startswith(f"it covers {len(read_hosts())} hosts until ")
    more = Settings(store=store, intercept_port=4903, intercept_hosts=("llm.gateway.example",))
    [finding] = check_authority(more)
    assert (finding.verdict, finding.mend) == (Verdict.NOTE, "make another by `spantap ca renew`")
    (authority_folder(store) / "authority.json").chmod(0o644)
    [finding] = check_authority(settings)
    assert finding.verdict is Verdict.BAD
