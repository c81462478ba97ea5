"""A key and a self-signed certificate for one address."""

from dataclasses import dataclass
from pathlib import Path

from devcluster.commands import output


@dataclass(frozen=True)
class Identity:
    """The proxy's key and certificate, as files in PEM."""

    key: Path
    certificate: Path
    """Clients must trust it: it is its own authority."""


def make_identity(folder: Path, address: str) -> Identity:
    """Make both for a server at this IP address.

    Raises:
        ClusterError: openssl failed; with its own words.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    identity = Identity(folder / "proxy.key", folder / "proxy.crt")
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-days", "3650", "-subj", "/CN=fault-proxy", "-addext", f"subjectAltName=IP:{address}"]
    output([*words, "-keyout", identity.key, "-out", identity.certificate])
    return identity
