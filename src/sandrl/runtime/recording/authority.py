"""The user's own authority of certificates, by which sandboxes whose downloads are recorded trust the recorder.

Only sandboxes trust it: nothing else on the machine does. Its key stays in the state directory.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from sandrl.errors import InputError
from sandrl.files import read_regular, write_whole
from sandrl.runtime.images import locks
from sandrl.settings import private_directory

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_MOST_BYTES = 64 << 10
_MOST_NAMES = 1024
_LIFETIME, _RENEWED, _LEAF_LIFETIME = timedelta(days=3650), timedelta(days=365), timedelta(days=90)
_CLOCK_SKEW = timedelta(days=2)


class Authority:
    """Gives certificates to the names of servers.

    Args:
        key: Its private key.
        certificate: Its own certificate.
    """

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self._key = key
        self._certificate = certificate
        # One key for all names: it lives as long as this object.
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self.context = lru_cache(_MOST_NAMES)(self._context)

    @property
    def certificate(self) -> bytes:
        """What sandboxes are to trust, in PEM."""
        from cryptography.hazmat.primitives import serialization

        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def _context(self, name: str) -> ssl.SSLContext:
        """What serves a name or an address with TLS, for HTTP/1.1."""
        from cryptography.hazmat.primitives import serialization

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        if _address_of(name) is not None:
            context.sni_callback = self._choose
        key = self._leaf_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        # `ssl` reads keys from files only.
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key + self._issued(name).public_bytes(serialization.Encoding.PEM))
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        return context

    def _choose(self, tls: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        if name:
            tls.context = self.context(name)

    def _issued(self, name: str) -> x509.Certificate:
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID

        address = _address_of(name)
        alternative = x509.DNSName(name) if address is None else x509.IPAddress(address)
        issued = _begun("", self._certificate.subject, self._leaf_key.public_key(), _LEAF_LIFETIME)
        issued = issued.add_extension(x509.SubjectAlternativeName([alternative]), critical=True)
        issued = issued.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        return _signed(issued.add_extension(usage, critical=False), self._key)


def open_authority(state_dir: Path) -> Authority:
    """The authority of the user, which is made where there is none, or where it ends within a year.

    Raises:
        InputError: If its file is damaged.
        SandrlError: If its directory belongs to someone else.
    """
    directory = private_directory(private_directory(state_dir) / "recording")
    path = directory / "authority.pem"
    lock = locks.take(directory / "lock", exclusive=True)
    try:
        return _read(path) or _made(path)
    finally:
        os.close(lock)


def _address_of(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _read(path: Path) -> Authority | None:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        content = read_regular(path, _MOST_BYTES, follow=False)
    except FileNotFoundError:
        return None
    try:
        key = serialization.load_pem_private_key(content, None)
        certificate = x509.load_pem_x509_certificate(content)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ValueError
    except ValueError:
        raise InputError("is not the key and the certificate of one authority", path=path, hint="remove it") from None
    is_old = certificate.not_valid_after_utc - datetime.now(UTC) < _RENEWED
    return None if is_old else Authority(key, certificate)


def _made(path: Path) -> Authority:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = f"recorder of sandrl {os.urandom(4).hex()}"
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begun = _begun(name, issuer, key.public_key(), _LIFETIME)
    begun = begun.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    begun = begun.add_extension(
        x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        ),
        critical=True,
    )
    certificate = _signed(begun, key)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    # One file, so that key and certificate belong together at any moment.
    write_whole(path, private + certificate.public_bytes(serialization.Encoding.PEM), durable=True)
    return Authority(key, certificate)


def _begun(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: timedelta
) -> x509.CertificateBuilder:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    now = datetime.now(UTC)
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _signed(begun: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return begun.add_extension(issuer, critical=False).sign(key, hashes.SHA256())
