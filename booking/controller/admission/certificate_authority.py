"""The webhook's own certificate authority and server certificate. Pure, except for the random keys.

Certificates and keys are PEM; keys are PKCS#8, the only form that the server's TLS library reads.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cluster import names
from cluster.process.certificates import KeyPair

AUTHORITY_LASTS: Final = timedelta(days=3650)
CERTIFICATE_LASTS: Final = timedelta(days=365)
BACKDATED: Final = timedelta(hours=1)
"""For clocks that are behind ours."""
RENEWED_AHEAD: Final = timedelta(days=90)


class UnreadableError(ValueError):
    """The text holds no certificate or key in PEM."""


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The DNS names by which the API server calls a Service."""
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local")


def new_authority(now: datetime) -> KeyPair:
    """A new authority that may sign server certificates only."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"{names.PRODUCT} admission authority")
    usage = _usage(signs=True)
    certificate = (
        _certificate(key.public_key(), now, AUTHORITY_LASTS)
        .subject_name(name)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(_pem(certificate), _pem_key(key))


def new_certificate(authority: KeyPair, hosts: Sequence[str], now: datetime) -> KeyPair:
    """A new server certificate.

    Args:
        authority: the authority that signs it.
        hosts: DNS names and IP addresses of the server; the first is the certificate's common name.
        now: the instant.

    Raises:
        UnreadableError: the authority is not in PEM.
    """
    issuer, signer = _read(authority.certificate), _read_key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _certificate(key.public_key(), now, CERTIFICATE_LASTS)
        .subject_name(_name(hosts[0][:64]))
        .issuer_name(issuer.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return KeyPair(_pem(certificate), _pem_key(key))


def needs_renewal(certificate: bytes, now: datetime) -> bool:
    """Whether a certificate ends within 90 days, or cannot be read."""
    try:
        return _read(certificate).not_valid_after_utc - now < RENEWED_AHEAD
    except UnreadableError:
        return True


def has_ended(certificate: bytes, now: datetime) -> bool:
    """Whether a certificate has expired, or cannot be read."""
    try:
        return _read(certificate).not_valid_after_utc <= now
    except UnreadableError:
        return True


def made_at(certificate: bytes) -> datetime:
    """When a certificate of ours was made: its start of validity is backdated.

    Raises:
        UnreadableError: it is not in PEM.
    """
    return _read(certificate).not_valid_before_utc + BACKDATED


def is_whole(pair: KeyPair) -> bool:
    """Whether certificate and key can be read and belong together."""
    try:
        return _read(pair.certificate).public_key() == _read_key(pair.key).public_key()
    except UnreadableError:
        return False


def vouches(authority: bytes, certificate: bytes, hosts: Sequence[str]) -> bool:
    """Whether the authority has signed the certificate, and the certificate covers all of ``hosts``."""
    try:
        signed = _read(certificate)
        signed.verify_directly_issued_by(_read(authority))
        names = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (UnreadableError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return all(_general(host) in names for host in hosts)


def _certificate(key: ec.EllipticCurvePublicKey, now: datetime, lasts: timedelta) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().public_key(key).serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - BACKDATED).not_valid_after(now + lasts)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _read(pem: bytes) -> x509.Certificate:
    """The first certificate in a PEM text."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise UnreadableError(f"This is not a certificate in PEM: {error}") from error


def _read_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise UnreadableError(f"This is not a key in PEM: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UnreadableError("The key is of another kind than ours.")
    return key
