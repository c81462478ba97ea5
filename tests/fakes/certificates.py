"""Certificates of authorities that tests make up, by openssl."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_NEW = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "10")


@dataclass(frozen=True)
class Signed:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


def authority(folder: Path, name: str) -> Signed:
    """One that signs for whomever the test wants."""
    made = Signed(folder / f"{name}.crt", folder / f"{name}.key")
    _openssl("-subj", f"/CN={name}", "-keyout", str(made.key), "-out", str(made.certificate))
    return made


def signed(by: Signed, folder: Path, name: str, *, use: str, address: str = "127.0.0.1") -> Signed:
    """A certificate for a name.

    Args:
        by: the authority.
        folder: for the files.
        name: its common name.
        use: ``serverAuth`` or ``clientAuth``.
        address: of the server.
    """
    names = f"IP:{address},DNS:localhost" if use == "serverAuth" else "DNS:somebody.example"
    made = Signed(folder / f"{by.certificate.stem}.{name}.crt", folder / f"{by.certificate.stem}.{name}.key")
    _openssl(
        *("-subj", f"/CN={name}", "-CA", str(by.certificate), "-CAkey", str(by.key)),
        *("-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"extendedKeyUsage={use}"),
        *("-addext", f"subjectAltName={names}"),
        *("-keyout", str(made.key), "-out", str(made.certificate)),
    )
    return made


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", "req", "-x509", *_NEW, *words], check=True, capture_output=True)
