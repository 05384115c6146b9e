"""Checks our certificates, and our authority: can they be used, and for how long?

An expiry date is read from a certificate's DER (RFC 5280, section 4.1), because the standard
library knows it only for certificates that a connection has verified.
"""

from __future__ import annotations

import binascii
import contextlib
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from proxy.commands.ca import explain_limits
from proxy.commands.check.findings import bad, good, note
from proxy.configure import build_listener_tls, build_upstream_tls
from proxy.interception.kept_authority import (
    authority_folder,
    find_authority,
    list_hosts,
    load_authority,
)
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proxy.commands.check.findings import Finding
    from proxy.settings.settings import Settings

_SOON = timedelta(days=30)
"""A certificate that ends within this time should have been renewed: one for 90 days usually is
renewed 30 days before its end."""

_AUTHORITY = "certificate authority"

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)

_CONSTRUCTED_VERSION = 0xA0
_UTC_TIME = 0x17


def check_certificates(settings: Settings) -> Iterator[Finding]:
    """Check each file of certificates that the settings name."""
    try:
        build_upstream_tls(settings)
        build_listener_tls(settings)
    except ConfigurationError as error:
        yield bad("certificates", str(error), "name a PEM file that can be read")
        return
    if settings.ca_file is not None:
        yield _judge("ca_file", settings.ca_file, are_alternatives=True)
    for name, path in (("client_cert", settings.client_cert), ("tls_cert", settings.tls_cert)):
        if path is not None:
            yield _judge(name, path, are_alternatives=False)


def check_authority(settings: Settings) -> Iterator[Finding]:
    """Check the authority of interception, without making one."""
    if not settings.intercept_port:
        return
    try:
        hosts = list_hosts(settings.intercept_hosts)
        kept = find_authority(settings.store)
        authority = None if kept is None else load_authority(settings.store, kept)
    except ConfigurationError as error:
        yield bad(_AUTHORITY, str(error), "see `spantap help interception`")
        return
    if authority is None:
        where = authority_folder(settings.store)
        yield good(_AUTHORITY, f"`spantap serve` makes one in {where}")
        return
    limits = [*explain_limits(authority, hosts)]
    for words in limits:
        yield note(_AUTHORITY, words, "make another by `spantap ca renew`")
    if not limits:
        end = f"{authority.ends_at:%Y-%m-%d}"
        yield good(_AUTHORITY, f"it covers {len(hosts)} hosts until {end}")


def _judge(name: str, path: Path, *, are_alternatives: bool) -> Finding:
    """Judge the certificates in a file.

    Some of several authorities (`are_alternatives`) may have ended. Every certificate of a chain
    must be valid.
    """
    dates = read_expiry_dates(path.read_bytes())
    if not dates:
        return note(name, f"no certificate is found in {path}", "name a PEM file that holds some")
    now = datetime.now(UTC)
    first, last = min(dates), max(dates)
    mend = f"put a renewed one into {path}, and restart"
    if (last if are_alternatives else first) <= now:
        return bad(name, f"{path} ended on {first:%Y-%m-%d}", mend)
    if first <= now + _SOON:
        ends = "ends" if first > now else "holds one that ended"
        return note(name, f"{path} {ends} on {first:%Y-%m-%d}", mend)
    return good(name, f"{path} is good until {first:%Y-%m-%d}")


def read_expiry_dates(pem: bytes) -> list[datetime]:
    """Read when each certificate in a PEM file ends; one that cannot be read is left out."""
    dates = []
    for encoded in _PEM.findall(pem):
        with contextlib.suppress(ValueError, IndexError):
            dates.append(_not_after(binascii.a2b_base64(encoded)))
    return dates


def _not_after(der: bytes) -> datetime:
    """Read ``tbsCertificate.validity.notAfter``.

    Raises:
        IndexError, ValueError: it is not a certificate.
    """
    at, _ = _content(der, 0)  # Certificate
    at, _ = _content(der, at)  # tbsCertificate
    if der[at] == _CONSTRUCTED_VERSION:
        _, at = _content(der, at)
    for _ in ("serialNumber", "signature", "issuer"):
        _, at = _content(der, at)
    at, _ = _content(der, at)  # validity
    _, at = _content(der, at)  # notBefore
    start, end = _content(der, at)
    text = der[start:end].decode("ascii")
    if der[at] == _UTC_TIME:  # with two digits for a year from 1950 to 2049
        text = f"{'20' if text < '5' else '19'}{text}"
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _content(der: bytes, at: int) -> tuple[int, int]:
    """Find the start and the end of the content of the element at `at`."""
    length, start = der[at + 1], at + 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[at + 2 : start])
    return start, start + length
