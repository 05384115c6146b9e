"""The variables that send a command's TLS through an interception, and make it trusted.

The rows are data, in ``trust.json`` beside this module. Some variables name certificates that a
program trusts as well as its own, others name all that it trusts. On the machines of companies the
user has often set them already, so each file holds what the user's own names, and then ours.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from proxy.launches.variables import read_no_proxy
from telemetry.own_files import write_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Programs reach servers on their own machine without a proxy: Ollama, MCP, their own."""

MAX_FILE_BYTES = 16 * 1024 * 1024
"""A longer file holds no certificates; those of a system take a quarter of a megabyte."""

_CERTIFICATE = re.compile(
    rb"-----BEGIN ((?:TRUSTED |X509 )?CERTIFICATE)-----.*?-----END \1-----", re.DOTALL
)
"""What is taken from files: not their comments, nor a key that somebody keeps beside."""


class Gives(StrEnum):
    """What a variable says.

    Attributes:
        ADDED: a file with certificates that are trusted as well.
        BUNDLE: a file with all certificates that are trusted.
    """

    PROXY = "proxy"
    NO_PROXY = "no_proxy"
    SWITCH = "switch"
    ADDED = "added"
    BUNDLE = "bundle"


class TrustVariable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A variable.

    Attributes:
        readers: the programs that read it.
        folder: a variable that names a folder, or several, with more of the user's certificates.
        otherwise: variables that its readers heed when it is not set.
    """

    name: str
    gives: Gives
    readers: str
    source: str
    date: str
    folder: str = ""
    otherwise: tuple[str, ...] = ()


@cache
def read_trust() -> tuple[TrustVariable, ...]:
    """Read the rows, in the order of the file."""
    data = Path(__file__).with_name("trust.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[TrustVariable, ...])


def build_trust(
    environ: Mapping[str, str], proxy_url: str, authority: bytes, folder: Path
) -> dict[str, str]:
    """Build the variables of a command.

    Args:
        environ: its variables so far.
        proxy_url: the URL of the interception, with its secret.
        authority: the certificate of the run's authority, as PEM.
        folder: where the files go that the variables name.

    Raises:
        OSError: a file cannot be written.
    """
    texts: dict[Gives, Callable[[TrustVariable], str]] = {
        Gives.PROXY: lambda _: proxy_url,
        Gives.NO_PROXY: lambda row: _add_loopback(environ, row.name),
        Gives.SWITCH: lambda _: "1",
        Gives.ADDED: lambda row: _write(folder, row.name, _read_own(row, environ), authority),
        Gives.BUNDLE: lambda row: _write(folder, row.name, _find_trusted(row, environ), authority),
    }
    return {row.name: texts[row.gives](row) for row in read_trust()}


def _add_loopback(environ: Mapping[str, str], name: str) -> str:
    """Add this machine to the exceptions from proxies, in one spelling of their variable."""
    words = read_no_proxy(environ, name)
    if "*" in words:
        return "*"  # programs understand it only if nothing stands beside it
    return ",".join([*words, *(host for host in _LOOPBACK if host not in words)])


def _read_own(row: TrustVariable, environ: Mapping[str, str]) -> bytes:
    """Read the certificates that the user's variable names, or those that it stands before."""
    for name in (row.name, *row.otherwise):
        if path := environ.get(name, ""):
            return read_certificates(Path(path))
    return b""


def _find_trusted(row: TrustVariable, environ: Mapping[str, str]) -> bytes:
    """Find all that a program trusts without us: the user's certificates, else the system's."""
    found = _read_own(row, environ) or _read_system()
    folders = environ.get(row.folder, "") if row.folder else ""
    more = (read_certificates(Path(folder)) for folder in folders.split(os.pathsep) if folder)
    return b"".join((found, *more))


@cache
def _read_system() -> bytes:
    """Read the system's certificates, or those that come with ``certifi``."""
    paths = ssl.get_default_verify_paths()
    for path in (paths.openssl_cafile, paths.openssl_capath):
        if found := read_certificates(Path(path)):
            return found
    with contextlib.suppress(ImportError):
        import certifi  # noqa: PLC0415 - requests brings it

        return read_certificates(Path(certifi.where()))
    return b""


def read_certificates(path: Path) -> bytes:
    """Read certificates as PEM, from a file or all files of a folder; nothing if there are none."""
    found = dict.fromkeys(
        match.group() for data in _read(path) for match in _CERTIFICATE.finditer(data)
    )
    return b"".join(certificate + b"\n" for certificate in found)


def _read(path: Path) -> Iterator[bytes]:
    with contextlib.suppress(OSError):
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            with contextlib.suppress(OSError):
                if file.is_file() and file.stat().st_size <= MAX_FILE_BYTES:
                    yield file.read_bytes()


def _write(folder: Path, name: str, others: bytes, authority: bytes) -> str:
    """Write a file of certificates, which only we can read; return its path."""
    path = folder / f"{name.lower()}.pem"
    write_secret(path, others.replace(authority, b"") + authority, replaces=True)
    return str(path)
