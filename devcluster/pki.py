"""Keys, certificates and tokens of one cluster: created again at every start, trusted by no other cluster."""

import secrets
from dataclasses import dataclass
from pathlib import Path

from cluster import names
from devcluster.addresses import Addresses
from devcluster.commands import output

_DAYS = "3650"
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)

ADMINISTRATOR = "admin"
# User and group of each bearer; Kubernetes' own bootstrap roles cover all of them.
_COMPONENTS = {
    ADMINISTRATOR: ("admin", "system:masters"),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-proxy": ("system:kube-proxy", ""),
}


@dataclass(frozen=True, slots=True)
class Pki:
    """The files in a cluster's folder of keys."""

    folder: Path

    @property
    def authority(self) -> Path:
        """Certificate of the cluster's own authority."""
        return self.folder / "ca.crt"

    @property
    def server_certificate(self) -> Path:
        """The API server's certificate."""
        return self.folder / "apiserver.crt"

    @property
    def server_key(self) -> Path:
        """The API server's key."""
        return self.folder / "apiserver.key"

    @property
    def service_account_key(self) -> Path:
        """The key that signs the tokens of service accounts."""
        return self.folder / "service-accounts.key"

    @property
    def service_account_public_key(self) -> Path:
        """The key that verifies the tokens of service accounts."""
        return self.folder / "service-accounts.pub"

    @property
    def tokens(self) -> Path:
        """kube-apiserver's static tokens: token,user,uid,"groups"."""
        return self.folder / "tokens.csv"

    def token(self, bearer: str) -> str:
        """The token of the administrator, a component or a node; KeyError for any other bearer."""
        for line in self.tokens.read_text().splitlines():
            token, _, uid, _ = line.split(",")
            if uid == bearer:
                return token
        raise KeyError(bearer)


def make(folder: Path, addresses: Addresses, nodes: tuple[str, ...]) -> Pki:
    """Make the keys, certificates and tokens of a cluster with these nodes, in a new folder."""
    folder.mkdir(mode=0o700)
    pki = Pki(folder)
    authority_key = folder / "ca.key"
    _openssl("req", "-x509", *_NEW_KEY, "-days", _DAYS, "-subj", f"/CN={names.DEVCLUSTER}",
             "-keyout", authority_key, "-out", pki.authority)  # fmt: skip
    valid_for = [f"DNS:{name}" for name in _NAMES]
    valid_for += [f"IP:{ip}" for ip in ("127.0.0.1", addresses.kubernetes_service, addresses.control_plane)]
    _openssl("req", "-x509", *_NEW_KEY, "-days", _DAYS, "-subj", "/CN=kube-apiserver",
             "-CA", pki.authority, "-CAkey", authority_key, "-addext", "basicConstraints=critical,CA:FALSE",
             "-addext", "extendedKeyUsage=serverAuth", "-addext", f"subjectAltName={','.join(valid_for)}",
             "-keyout", pki.server_key, "-out", pki.server_certificate)  # fmt: skip
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", pki.service_account_key)
    _openssl("ec", "-in", pki.service_account_key, "-pubout", "-out", pki.service_account_public_key)
    pki.tokens.touch(mode=0o600)
    pki.tokens.write_text("".join(_token_lines(nodes)))
    return pki


def issue(pki: Pki, folder: Path, name: str, *, hosts: tuple[str, ...] = ()) -> tuple[Path, Path]:
    """A certificate signed by the cluster's authority, and its key, as files.

    Args:
        pki: the cluster's.
        folder: for the files, which are named after the certificate's name.
        name: its common name.
        hosts: DNS names of a server; without any it is a client's certificate.
    """
    stem = name.replace(":", "-")
    certificate, key = folder / f"{stem}.crt", folder / f"{stem}.key"
    use = "serverAuth" if hosts else "clientAuth"
    also = ",".join(f"DNS:{host}" for host in hosts or (stem,))
    subject = ("-days", _DAYS, "-subj", f"/CN={name}")
    signer = ("-CA", pki.authority, "-CAkey", pki.folder / "ca.key")
    extensions = ("basicConstraints=critical,CA:FALSE", f"extendedKeyUsage={use}", f"subjectAltName={also}")
    added = [word for text in extensions for word in ("-addext", text)]
    _openssl("req", "-x509", *_NEW_KEY, *subject, *signer, *added, "-keyout", key, "-out", certificate)
    return certificate, key


def _token_lines(nodes: tuple[str, ...]) -> list[str]:
    bearers = {**_COMPONENTS, **{node: (f"system:node:{node}", "system:nodes") for node in nodes}}
    return [f'{secrets.token_hex(20)},{user},{uid},"{group}"\n' for uid, (user, group) in bearers.items()]


def _openssl(*words: str | Path) -> None:
    output(["openssl", *words])
