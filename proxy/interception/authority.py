"""Certificates: an authority that can sign for its hosts alone, and their leaves.

A stolen key is worth little: the authority is limited to its hosts by critical name constraints
(RFC 5280 section 4.2.1.10), may sign no other authority, and ends. Clients differ in what they
demand of a leaf: Python 3.13 wants the key identifier of the authority, macOS the purpose
``serverAuth`` and less than 398 days.

The one module that imports ``cryptography``, which takes a tenth of a second.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable

VALID_DAYS = 30
"""How long a leaf is valid, and the authority of a run: longer than a run, less than clients
allow."""

BEGINS_BEFORE = dt.timedelta(hours=1)
"""How far back validity begins, because clocks of containers differ from their host's."""

MAX_COMMON_NAME_CHARS = 64
"""RFC 5280, appendix A.1. A longer host is named as an alternative name alone, as all clients want
it anyway."""


def make_authority(
    hosts: Iterable[str], *, valid_days: int = VALID_DAYS, name: str = "spantap, one run"
) -> tuple[bytes, bytes]:
    """Make an authority that can sign for these hosts alone; return certificate and key as PEM.

    Args:
        hosts: their exact names.
        valid_days: how long it is valid.
        name: what people see where certificates are listed.

    Raises:
        ValueError: there is no host, and an authority without constraints could sign for all.
    """
    names = sorted(set(hosts))
    if not names:
        raise ValueError("an authority needs the hosts that it may sign for")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    constraints = x509.NameConstraints(
        permitted_subtrees=[x509.DNSName(name) for name in names],
        excluded_subtrees=[
            x509.IPAddress(ipaddress.ip_network(network)) for network in ("0.0.0.0/0", "::/0")
        ],
    )
    certificate = (
        _begin(subject, subject, key.public_key(), _now() + dt.timedelta(days=valid_days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(constraints, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM), _encode_key(key)


class Authority:
    """Makes leaves, which all have one key.

    Args:
        certificate: the authority's, as PEM, like its `key`.

    Attributes:
        hosts: the names that it may sign for, with all names below them.
        ends_at: from then on clients refuse it.
        fingerprint: the SHA-256 of the certificate, as other programs show it.

    Raises:
        ValueError: they are not what :func:`make_authority` has made.
    """

    def __init__(self, certificate: bytes, key: bytes) -> None:
        self._certificate = x509.load_pem_x509_certificate(certificate)
        loaded = load_pem_private_key(key, password=None)
        if (
            not isinstance(loaded, ec.EllipticCurvePrivateKey)
            or loaded.public_key() != self._certificate.public_key()
        ):
            raise ValueError("the key is not that of the authority")
        self._key = loaded
        self.hosts = _read_hosts(self._certificate)
        self.ends_at = self._certificate.not_valid_after_utc
        self.fingerprint = self._certificate.fingerprint(hashes.SHA256()).hex(":").upper()
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())

    def covers(self, host: str) -> bool:
        """Tell whether clients accept what it signs for a host (RFC 5280 section 4.2.1.10)."""
        labels = host.split(".")
        return any(".".join(labels[at:]) in self.hosts for at in range(len(labels)))

    def make_leaf(self, host: str) -> bytes:
        """Make the leaf of a host; return it with its key, as PEM."""
        public = self._leaf_key.public_key()
        issuer = self._certificate
        # Clients accept no leaf that ends after its authority.
        ends_at = min(self.ends_at, _now() + dt.timedelta(days=VALID_DAYS))
        leaf = (
            _begin(_name(host), issuer.subject, public, ends_at)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        return leaf.public_bytes(Encoding.PEM) + _encode_key(self._leaf_key)


def _begin(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    ends_at: dt.datetime,
) -> x509.CertificateBuilder:
    """Begin a certificate: names, key, a random number and the time that it is valid."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_now() - BEGINS_BEFORE)
        .not_valid_after(ends_at)
    )


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _read_hosts(certificate: x509.Certificate) -> frozenset[str]:
    """Read the names that an authority may sign for.

    Raises:
        ValueError: there is no limit to them.
    """
    try:
        limits = certificate.extensions.get_extension_for_class(x509.NameConstraints).value
    except x509.ExtensionNotFound:
        limits = None
    names = limits.permitted_subtrees if limits is not None else None
    if not names:
        raise ValueError("the authority is not limited to hosts")
    return frozenset(name.value for name in names if isinstance(name, x509.DNSName))


def _name(common_name: str) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "spantap")]
    if len(common_name) <= MAX_COMMON_NAME_CHARS:
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    return x509.Name(attributes)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
