"""Serving the local network: the address of this machine there, and a certificate for it.

The certificate is signed by an authority of our own, made once and kept; its key never leaves the
state folder. Phones show a warning for it, and people compare the fingerprint.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3650
SERVER_DAYS = 397  # browsers refuse certificates of servers that live longer
RENEW_DAYS = 30  # before the end
ROUTED = "198.51.100.1"  # documentation address: asking for the way there sends nothing


class NoNetwork(Exception):
    """This machine has no address that a phone could reach."""


@dataclass(frozen=True)
class Certificate:
    """A server's certificate and what it hangs on, as PEM files."""

    authority: Path
    certificate: Path
    key: Path
    fingerprint: str  # SHA-256, as browsers show it


def lan_address() -> str:
    """Give the IPv4 address of this machine on its network; raises NoNetwork."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((ROUTED, 9))
            address = str(probe.getsockname()[0])
        except OSError:
            address = "127.0.0.1"
    found = ipaddress.ip_address(address)
    if found.is_loopback or found.is_unspecified:
        raise NoNetwork("this machine is on no network: connect it, or leave out --lan")
    return address


def certificate_for(address: str, folder: Path) -> Certificate:
    """Give a valid certificate for an address, made now unless the folder has one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = (folder / "authority.pem", folder / "server.pem", folder / "server.key")
    server = _read(files[1])
    if server is None or not _serves(server, address) or not files[2].exists():
        server = _make_server(address, folder)
    return Certificate(*files, _fingerprint(server))


def _make_server(address: str, folder: Path) -> x509.Certificate:
    authority, authority_key = _authority(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    server = (
        _builder("Chimera Bridge", authority.subject, key.public_key(), SERVER_DAYS)
        .add_extension(x509.SubjectAlternativeName([_named(address)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_issuer_key_id(authority), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    _write(folder / "server.key", _pem_of(key))
    _write(folder / "server.pem", _pem(server) + _pem(authority))
    return server


def _authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Give our authority, made now unless the folder has it."""
    kept, key_file = _read(folder / "authority.pem"), folder / "authority.key"
    if kept is not None and _lasts(kept) and key_file.exists():
        key = serialization.load_pem_private_key(key_file.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return kept, key
    key = ec.generate_private_key(ec.SECP256R1())
    name = f"Chimera Bridge on {socket.gethostname()}"[:64]
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    subject_key = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    made = (
        _builder(name, _name(name), key.public_key(), AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(subject_key, critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(key_file, _pem_of(key))
    _write(folder / "authority.pem", _pem(made))
    return made, key


def _builder(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # phones' clocks are not exact
        .not_valid_after(now + timedelta(days=days))
    )


def _serves(certificate: x509.Certificate, address: str) -> bool:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return _named(address) in names and _lasts(certificate)


def _lasts(certificate: x509.Certificate) -> bool:
    return certificate.not_valid_after_utc > datetime.now(UTC) + timedelta(days=RENEW_DAYS)


def _named(address: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(address))


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _issuer_key_id(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    known = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(known.value)


def _fingerprint(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex(":").upper()


def _read(path: Path) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    fresh.replace(path)
