"""Keys and kubeconfigs: trusted by the cluster's own authority, readable by their owner alone."""

import json
import ssl
from base64 import b64decode
from pathlib import Path

import pytest

from devcluster import kubeconfig, pki
from devcluster.addresses import Addresses
from devcluster.commands import output
from devcluster.pki import ADMINISTRATOR, Pki

ADDRESSES = Addresses(1)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return pki.make(tmp_path_factory.mktemp("state") / "pki", ADDRESSES, ("node-a", "node-b"))


@pytest.mark.parametrize(
    "name",
    [
        ("-verify_hostname", "kubernetes.default.svc"),
        ("-verify_ip", "127.0.0.1"),
        ("-verify_ip", str(ADDRESSES.control_plane)),
        ("-verify_ip", str(ADDRESSES.kubernetes_service)),
    ],
)
def test_the_api_servers_certificate_holds_for_all_its_names(keys: Pki, name: tuple[str, str]) -> None:
    printed = output(
        [
            "openssl",
            "verify",
            "-CAfile",
            keys.authority,
            "-purpose",
            "sslserver",
            *name,
            keys.server_certificate,
        ]
    )

    assert printed.strip().endswith("OK")


def test_key_and_certificate_belong_together(keys: Pki) -> None:
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(keys.server_certificate, keys.server_key)


def test_every_component_has_a_token_of_its_own_and_the_right_groups(keys: Pki) -> None:
    lines = [line.split(",", 1) for line in keys.tokens.read_text().splitlines()]

    assert {rest for _, rest in lines} == {
        'admin,admin,"system:masters"',
        'system:kube-scheduler,kube-scheduler,""',
        'system:kube-controller-manager,kube-controller-manager,""',
        'system:kube-proxy,kube-proxy,""',
        'system:node:node-a,node-a,"system:nodes"',
        'system:node:node-b,node-b,"system:nodes"',
    }
    assert len({token for token, _ in lines}) == len(lines)
    assert keys.token("node-a") in keys.tokens.read_text()


def test_keys_and_tokens_are_readable_by_their_owner_alone(keys: Pki, tmp_path: Path) -> None:
    written = kubeconfig.write(tmp_path / "new" / "kubeconfig", "{}")

    assert keys.folder.stat().st_mode & 0o077 == 0
    assert keys.tokens.stat().st_mode & 0o077 == 0
    assert written.stat().st_mode & 0o077 == 0


def test_a_kubeconfig_trusts_the_authority_and_nothing_else(keys: Pki) -> None:
    text = kubeconfig.text(
        server="https://198.18.0.2:6443",
        authority=keys.authority,
        token=keys.token(ADMINISTRATOR),
        user="admin",
    )

    cluster = json.loads(text)["clusters"][0]["cluster"]
    assert b64decode(cluster["certificate-authority-data"]) == keys.authority.read_bytes()
    assert set(cluster) == {"server", "certificate-authority-data"}
