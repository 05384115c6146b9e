"""The authority that stays: for programs that somebody else starts, and that read it once.

It is in the folder ``<store>.ca``, which only its owner can read: ``authority.json`` has the
certificate, its key and the secret that programs show, and ``ca.pem`` the certificate alone, for
programs. It is made when it is first needed, and stays the same over restarts. Its hosts are in the
certificate, so they stay the same, too; a host that a later version lists is outside it until the
authority is renewed.

Several processes may do this at once, also on several machines that share the folder. Each file is
made whole in one step, and ``authority.json`` alone counts: the first one stays, and whoever has
written ``ca.pem`` looks again whether it still fits.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from proxy.interception.hosts import check_hosts, read_hosts
from proxy.interception.interception import Interception
from telemetry.errors import ConfigurationError
from telemetry.own_files import (
    RefusedError,
    check_own,
    make_own_folder,
    read_secret,
    write_secret,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy.interception.authority import Authority

VALID_DAYS: Final = 365
"""How long the authority is valid. Clients on macOS accept 398 days."""

SECRET_BYTES: Final = 32
"""How many random bytes the secret has: nobody can guess them."""

_NAME: Final = "spantap"
_MAX_FILE_BYTES: Final = 256 * 1024
_MAX_TRIES: Final = 16


class KeptAuthority(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``authority.json``.

    Attributes:
        certificate: as PEM, like its `key`.
        secret: what programs show at the port.
    """

    certificate: str
    key: str
    secret: str

    def __repr__(self) -> str:
        """Show nothing of it (R7)."""
        return "KeptAuthority(…)"


def authority_folder(store: Path) -> Path:
    """Name the folder; a link to the store has the same one as the store."""
    return Path(f"{store.resolve()}.ca")


def certificate_path(store: Path) -> Path:
    """Name the file that programs read."""
    return authority_folder(store) / "ca.pem"


def list_hosts(named: Iterable[str]) -> frozenset[str]:
    """List the hosts that are opened: the model hosts, and those that the settings name.

    Raises:
        ConfigurationError: one that is named may not be opened.
    """
    return read_hosts() | check_hosts(named, "setting 'intercept_hosts'")


def find_authority(store: Path) -> KeptAuthority | None:
    """Find the authority beside a store, and change nothing; ``None`` if there is none.

    Raises:
        ConfigurationError: it cannot be read, or others may know it.
    """
    with _explaining(store):
        return _read(store)


def keep_authority(store: Path, hosts: Iterable[str]) -> KeptAuthority:
    """Return the authority beside a store; make one for these hosts if there is none.

    Programs find its certificate in ``ca.pem`` then.

    Raises:
        ConfigurationError: it cannot be made or read, or others may know it.
    """
    with _explaining(store):
        kept = _agree(store)
        if kept is None:
            _write(store, _make(hosts, secrets.token_urlsafe(SECRET_BYTES)), replaces=False)
            kept = _agree(store)
        if kept is None:
            raise FileNotFoundError(errno.ENOENT, "another process has removed it")
        return kept


def load_authority(store: Path, kept: KeptAuthority) -> Authority:
    """Load the certificate and the key that were read beside a store.

    Raises:
        ConfigurationError: they do not fit together, or are none.
    """
    # Imported here because it takes a tenth of a second.
    from proxy.interception.authority import Authority  # noqa: PLC0415

    with _explaining(store):
        return Authority(kept.certificate.encode(), kept.key.encode())


def build_interception(store: Path, named: Iterable[str]) -> Interception:
    """Build what a port needs that serves programs of all kinds, from files that exist already.

    Raises:
        ConfigurationError: there is no authority, or a host may not be opened.
    """
    kept = find_authority(store)
    if kept is None:
        raise ConfigurationError(f"{authority_folder(store)} was removed while spantap started")
    return Interception(
        secret=kept.secret,
        ca_certificate=kept.certificate.encode(),
        ca_key=kept.key.encode(),
        hosts=list_hosts(named),
    )


def renew_authority(store: Path, hosts: Iterable[str]) -> KeptAuthority:
    """Replace the authority by a new one for these hosts; the secret stays.

    What cannot be read is replaced, too, with a new secret. In other files of certificates in the
    folder, which ``spantap ca env`` has written, the new certificate takes the old one's place.

    Raises:
        ConfigurationError: the files cannot be written.
    """
    old = None
    with contextlib.suppress(ConfigurationError):
        old = find_authority(store)
    secret = secrets.token_urlsafe(SECRET_BYTES) if old is None else old.secret
    with _explaining(store):
        before = _read_certificate(store)
        _write(store, _make(hosts, secret), replaces=True)
        kept = keep_authority(store, hosts)
        if before:
            for path in authority_folder(store).glob("[!.]*.pem"):
                data = path.read_bytes()
                if before in data:
                    replaced = data.replace(before, kept.certificate.encode())
                    write_secret(path, replaced, replaces=True)
    return kept


def remove_authority(store: Path) -> bool:
    """Remove the authority and its folder; false if there was none.

    Raises:
        ConfigurationError: it cannot be removed.
    """
    folder = authority_folder(store)
    with _explaining(store):
        check_own(folder, is_folder=True)
        if not folder.exists():
            return False
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
        folder.rmdir()
    return True


def _truth(store: Path) -> Path:
    return authority_folder(store) / "authority.json"


def _make(hosts: Iterable[str], secret: str) -> KeptAuthority:
    from proxy.interception.authority import make_authority  # noqa: PLC0415 - as above

    certificate, key = make_authority(hosts, valid_days=VALID_DAYS, name=_NAME)
    return KeptAuthority(certificate=certificate.decode(), key=key.decode(), secret=secret)


def _write(store: Path, made: KeptAuthority, *, replaces: bool) -> None:
    make_own_folder(authority_folder(store))
    write_secret(_truth(store), msgspec.json.encode(made), replaces=replaces)


def _read(store: Path) -> KeptAuthority | None:
    """Read the authority; ``None`` if there is none.

    Raises:
        OSError, ValueError: it cannot be done, or the file is damaged.
    """
    check_own(authority_folder(store), is_folder=True)
    try:
        data = read_secret(_truth(store), _MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    return msgspec.json.decode(data, type=KeptAuthority)


def _agree(store: Path) -> KeptAuthority | None:
    """Read the authority, and write ``ca.pem`` until it has that one's certificate.

    Another process may renew the authority meanwhile, or have ended before it wrote ``ca.pem``.

    Raises:
        OSError, ValueError: as above.
    """
    for _ in range(_MAX_TRIES):
        kept = _read(store)
        if kept is None:
            return None
        public = kept.certificate.encode()
        if _read_certificate(store) == public:
            return kept
        write_secret(certificate_path(store), public, replaces=True)
    raise OSError(errno.EBUSY, "other processes renew it all the time")


def _read_certificate(store: Path) -> bytes:
    """Read ``ca.pem``, which is no secret; nothing if there is none.

    Raises:
        OSError: it cannot be read, or is not ours.
    """
    path = certificate_path(store)
    check_own(path)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


@contextlib.contextmanager
def _explaining(store: Path) -> Iterator[None]:
    """Turn errors into sentences that name the folder and what to do, and quote nothing (R7)."""
    folder = authority_folder(store)
    try:
        yield
    except RefusedError as error:
        raise ConfigurationError(
            f"the certificate authority is not used: {error.filename}: {error.strerror}; remove"
            f" {folder}, and the next start makes another"
        ) from error
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ConfigurationError(
            f"the certificate authority cannot be kept in {folder}: {why}"
        ) from error
    except ValueError as error:
        raise ConfigurationError(
            f"the certificate authority in {folder} is damaged; `spantap ca renew` replaces it"
        ) from error
