"""Mode ``existing`` in a development cluster: two extenders, asked by the cluster's own kube-scheduler.

Neither a kubelet nor the endpoint controller takes care of processes of the host: a test of this mode writes
the endpoints of the Service itself (``endpoints``).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cluster import names
from devcluster import pki
from devcluster.pki import Pki
from devcluster.product import extender, scheduler_profile
from devcluster.product.part import Part

NAMES: Final = ("extender-a", "extender-b")
SERVICE: Final = names.EXTENDER
SCHEDULER: Final = "default-scheduler"
SERVER_NAME: Final = names.host_of(SERVICE)
_CLIENT = "system:kube-scheduler"


def replicas(keys: Pki, folder: Path, settings: Mapping[str, str]) -> tuple[Part, ...]:
    """How the extenders are started.

    Args:
        keys: the cluster's.
        folder: for their certificate.
        settings: the environment of their account, and anything else to be set.
    """
    shown = pki.issue(keys, folder, SERVICE, hosts=(SERVER_NAME,))
    return tuple(_replica(number, keys.authority, shown, settings) for number in range(len(NAMES)))


def _replica(number: int, authority: Path, shown: tuple[Path, Path], settings: Mapping[str, str]) -> Part:
    name, (certificate, key) = NAMES[number], shown
    environment = {
        names.setting("mode"): "existing",
        names.setting("host"): "0.0.0.0",
        names.setting("leader_prefix"): f"{name}_",
        names.setting("scheduler_name"): SCHEDULER,
        names.setting("tls_certificate_file"): str(certificate),
        names.setting("tls_key_file"): str(key),
        names.setting("tls_client_ca_file"): str(authority),
        **settings,
    }
    return extender.part(environment, name=name, number=number)


def asking(url: str, *, keys: Pki, folder: Path) -> dict[str, Any]:
    """The configuration with which the cluster's kube-scheduler asks the extenders."""
    certificate, key = pki.issue(keys, folder, _CLIENT)
    files = {"caFile": str(keys.authority), "certFile": str(certificate), "keyFile": str(key)}
    return scheduler_profile.existing(extender_url=url, server_name=SERVER_NAME, files=files)


def endpoints(number: int, address: str, *, ready: bool) -> dict[str, Any]:
    """The EndpointSlice of one of the extenders."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": NAMES[number],
            "namespace": names.NAMESPACE,
            "labels": {"kubernetes.io/service-name": SERVICE},
        },
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": extender.port(number), "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": ready}}],
    }
