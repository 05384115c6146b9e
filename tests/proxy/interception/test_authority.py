"""The certificates of a run, as OpenSSL and a parser see them."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import ssl
import tempfile
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from proxy.interception.authority import Authority, make_authority
from proxy.interception.interception import Interception
from proxy.interception.leaf_contexts import LeafContexts
from tests.proxy.interception.intercepting import HOST, OTHER_HOST, SECRET, client_tls


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> ssl.SSLObject:
    """A handshake in memory; the client's side."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(down, up, server_hostname=name)
    far = server.wrap_bio(up, down, server_side=True)
    for _ in range(10):
        for side in (near, far):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    near.do_handshake()
    return near


def serve(pem: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def test_the_authority_is_limited_to_its_hosts() -> None:
    """Each extension as clients want it, and those that limit are critical."""
    certificate = x509.load_pem_x509_certificate(make_authority([OTHER_HOST, HOST, HOST])[0])
    constraints = certificate.extensions.get_extension_for_class(x509.NameConstraints)
    assert constraints.critical
    assert constraints.value.permitted_subtrees == [x509.DNSName(HOST), x509.DNSName(OTHER_HOST)]
    assert constraints.value.excluded_subtrees == [
        x509.IPAddress(ipaddress.ip_network("0.0.0.0/0")),
        x509.IPAddress(ipaddress.ip_network("::/0")),
    ]
    basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (basic.critical, basic.value.ca, basic.value.path_length) == (True, True, 0)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.key_cert_sign
    assert usage.value.crl_sign
    assert not usage.value.digital_signature
    own = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    assert len(own.value.digest) == 20
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"


def test_a_leaf_is_what_clients_accept() -> None:
    """Python 3.13 wants the authority's key identifier, macOS the purpose and a short life."""
    certificate, key = make_authority([HOST])
    leaf = x509.load_pem_x509_certificate(Authority(certificate, key).make_leaf(HOST))
    find = leaf.extensions.get_extension_for_class
    assert find(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName) == [HOST]
    assert list(find(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    ca = x509.load_pem_x509_certificate(certificate)
    own = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert find(x509.AuthorityKeyIdentifier).value.key_identifier == own
    assert not find(x509.BasicConstraints).value.ca
    now = dt.datetime.now(dt.UTC)
    for each in (ca, leaf):
        assert each.not_valid_before_utc < now - dt.timedelta(minutes=59)
        assert now + dt.timedelta(days=29) < each.not_valid_after_utc
        assert each.not_valid_after_utc < now + dt.timedelta(days=31)
    assert leaf.not_valid_after_utc <= ca.not_valid_after_utc


@pytest.mark.parametrize(("valid_days", "leaf_days"), [(365, 30), (7, 7)])
def test_a_leaf_ends_after_a_month_or_with_its_authority(valid_days: int, leaf_days: int) -> None:
    """Clients on macOS refuse a longer one, and all a leaf that outlives its authority."""
    certificate, key = make_authority([HOST], valid_days=valid_days)
    authority = Authority(certificate, key)
    leaf = x509.load_pem_x509_certificate(authority.make_leaf(HOST))
    now = dt.datetime.now(dt.UTC)
    for each, days in ((authority.ends_at, valid_days), (leaf.not_valid_after_utc, leaf_days)):
        assert abs(each - now - dt.timedelta(days=days)) < dt.timedelta(hours=1)


def test_a_key_of_another_authority_is_not_taken() -> None:
    """Clients would refuse all that it signs."""
    certificate, _ = make_authority([HOST])
    _, key = make_authority([HOST])
    with pytest.raises(ValueError, match="not that of the authority"):
        Authority(certificate, key)


def test_an_authority_without_limits_is_not_taken() -> None:
    """A company's own, for example: its stolen key would be worth much."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "everything")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + dt.timedelta(days=9))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(ValueError, match="not limited"):
        Authority(certificate.public_bytes(Encoding.PEM), pem)


@pytest.mark.parametrize(
    ("host", "is_covered"),
    [(HOST, True), (f"eu.{HOST}", True), (f"x{HOST}", False), (OTHER_HOST, False)],
)
def test_an_authority_says_which_hosts_it_covers(host: str, is_covered: bool) -> None:
    """As OpenSSL sees it: also those below its names."""
    certificate, key = make_authority([HOST])
    authority = Authority(certificate, key)
    assert authority.covers(host) is is_covered
    server = serve(authority.make_leaf(host))
    try:
        shake_hands(server, client_tls(certificate), host)
    except ssl.SSLCertVerificationError:
        assert not is_covered
    else:
        assert is_covered


def test_a_long_host_has_a_leaf() -> None:
    """Its name does not fit where names of subjects are."""
    host = ".".join(["a" * 40, "b" * 40, "test"])
    certificate, key = make_authority([host])
    server = serve(Authority(certificate, key).make_leaf(host))
    assert shake_hands(server, client_tls(certificate), host).version() == "TLSv1.3"


@pytest.mark.parametrize("host", [OTHER_HOST, "github.com", f"x{HOST}"])
def test_openssl_refuses_what_is_signed_outside_the_hosts(host: str) -> None:
    """So a stolen key is worth little."""
    certificate, key = make_authority([HOST])
    server = serve(Authority(certificate, key).make_leaf(host))
    with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree violation"):
        shake_hands(server, client_tls(certificate), host)


def test_strict_verification_accepts_a_leaf() -> None:
    """As Python 3.13 verifies by default."""
    certificate, key = make_authority([HOST])
    client = client_tls(certificate)
    client.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    server = serve(Authority(certificate, key).make_leaf(HOST))
    assert shake_hands(server, client, HOST).version() == "TLSv1.3"


def test_an_authority_without_hosts_is_not_made() -> None:
    with pytest.raises(ValueError, match="hosts"):
        make_authority([])


def make_contexts() -> tuple[LeafContexts, bytes]:
    certificate, key = make_authority([HOST, OTHER_HOST])
    interception = Interception(
        secret=SECRET, ca_certificate=certificate, ca_key=key, hosts=frozenset({HOST})
    )
    return LeafContexts(interception), certificate


def count_files() -> int:
    """How many files are open here."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("has_memory_files", [True, False])
def test_a_context_is_made_once_and_leaves_no_file(
    has_memory_files: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no file can be in memory, it is on the disk for its user alone, and removed at once."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes = []
    load = ssl.SSLContext.load_cert_chain

    def look(self: ssl.SSLContext, path: str) -> None:
        if not path.startswith("/proc/"):
            modes.append(oct(Path(path).stat().st_mode & 0o777))
            modes.append(oct(Path(path).parent.stat().st_mode & 0o777))
        load(self, path)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", look)
    if not has_memory_files:
        monkeypatch.delattr(os, "memfd_create")
    files = count_files()
    contexts, certificate = make_contexts()
    context = contexts.find(HOST)
    assert contexts.find(HOST) is context
    client = shake_hands(context, client_tls(certificate, protocols=("h2", "http/1.1")), HOST)
    assert client.selected_alpn_protocol() == "http/1.1"
    assert list(tmp_path.iterdir()) == []
    assert count_files() == files
    assert modes == ([] if has_memory_files else ["0o600", "0o700"])


def test_a_leaf_is_renewed_while_the_process_runs() -> None:
    """In good time, and also if the clock was set back."""
    certificate, key = make_authority([HOST], valid_days=365)
    interception = Interception(
        secret=SECRET, ca_certificate=certificate, ca_key=key, hosts=frozenset({HOST})
    )
    at = 1_000_000.0
    contexts = LeafContexts(interception, lambda: at)
    first = contexts.find(HOST)
    at += 14 * 86_400
    assert contexts.find(HOST) is first
    at += 2 * 86_400
    second = contexts.find(HOST)
    assert second is not first
    assert contexts.find(HOST) is second
    at -= 86_400
    assert contexts.find(HOST) is not second


def test_where_proc_is_hidden_the_disk_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in some sandboxes."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("os.path.exists", lambda _: False)
    contexts, _ = make_contexts()
    assert contexts.find(HOST).minimum_version is ssl.TLSVersion.TLSv1_2
    assert list(tmp_path.iterdir()) == []
