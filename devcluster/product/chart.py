"""Our chart in a development cluster: installed by Helm, as by an administrator.

`helm upgrade --install` takes about as long as rendering and applying, makes the namespace, and applies on
the server: what the controller wrote into the configuration of the webhook survives an upgrade.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from cluster import names
from cluster.kube.resources import BOOKINGS
from devcluster.commands import output
from devcluster.errors import ClusterError
from devcluster.paths import CHECKOUT
from devcluster.product import booking_controller, booking_server
from devcluster.wait import poll

CHART = CHECKOUT / "charts" / names.PRODUCT
RELEASE = names.PRODUCT
_BOOKINGS = f"{BOOKINGS.plural}.{BOOKINGS.group}"
_SECONDS = 60
SERVED = ("admissionregistration.k8s.io/v1/MutatingAdmissionPolicy",)
"""Kinds that our Kubernetes serves, and that Helm does not know when it renders without a cluster."""


class Administration(Protocol):
    """What this needs of the cluster."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        ...

    @property
    def state(self) -> Path:
        """Folder of everything that ends with the cluster."""
        ...

    def program(self, name: str) -> Path:
        """Path of one of the cluster's binaries."""
        ...

    def kubectl(self, *words: str) -> str:
        """What kubectl prints, as the administrator; ClusterError if it fails."""
        ...


def external(address: str, port: int) -> dict[str, Any]:
    """The chart's value for a part that runs as a process of the host, like the API server."""
    return {"external": {"address": address, "port": port}}


def external_values(address: str) -> dict[str, Any]:
    """The chart's values if all of our parts are processes of the host: it then has no pods."""
    return {
        "server": external(address, booking_server.PORT),
        "controller": external(address, booking_controller.PORT),
        "extender": {"enabled": False},
        "nodeAgent": {"enabled": False, "without": "none"},
    }


def install(cluster: Administration, values: Mapping[str, Any]) -> None:
    """Install or upgrade the chart; returns when the custom resource is served.

    Raises:
        ClusterError: in Helm's own words.
    """
    # Without --reset-values Helm reuses the last values if none are given.
    arguments = ["upgrade", "--install", "--create-namespace", "--reset-values"]
    where = f"--kubeconfig={cluster.kubeconfig}"
    helm(cluster.program("helm"), cluster.state / "helm", *arguments, where, *_release(), values=values)
    await_established(cluster, f"crd/{_BOOKINGS}")


def await_established(cluster: Administration, kind: str) -> None:
    """Wait until the API server serves a kind.

    ``kubectl wait`` fails if it runs before the first condition is there.

    Args:
        cluster: in which it was applied.
        kind: its definition, as ``crd/<plural>.<group>``.

    Raises:
        ClusterError: it is not served in time, in kubectl's words.
    """

    def is_served() -> bool:
        found = json.loads(cluster.kubectl("get", kind, "--output=json"))
        conditions = found.get("status", {}).get("conditions") or ()
        return any((one["type"], one["status"]) == ("Established", "True") for one in conditions)

    if not poll(is_served, seconds=_SECONDS):
        raise ClusterError(f"{kind} is not served within {_SECONDS} s: {cluster.kubectl('describe', kind)}")


def render(
    program: Path,
    folder: Path,
    values: Mapping[str, Any] | None = None,
    served: Sequence[str] = SERVED,
    *,
    kubernetes: str = "",
) -> str:
    """The manifests as Helm renders them, without a cluster.

    Args:
        program: Helm.
        folder: for what Helm keeps for itself.
        values: of the chart.
        served: kinds of API that the cluster has besides those that Helm takes for granted.
        kubernetes: version of the cluster, as its API server reports it; default: Helm's own.
    """
    kinds = [f"--api-versions={kind}" for kind in served]
    version = [f"--kube-version={kubernetes}"] if kubernetes else []
    return helm(program, folder, "template", *kinds, *version, *_release(), values=values or {})


def lint(program: Path, folder: Path) -> str:
    """What Helm's linter prints about the chart.

    Raises:
        ClusterError: it finds an error or a warning.
    """
    return helm(program, folder, "lint", "--strict", str(CHART), values={})


def package(program: Path, folder: Path) -> Path:
    """The chart as one file, as a registry or a download offers it.

    Args:
        program: Helm.
        folder: where the file comes, and what Helm keeps for itself.
    """
    helm(program, folder, "package", str(CHART), f"--destination={folder}", values=None)
    (made,) = folder.glob(f"{names.PRODUCT}-*.tgz")
    return made


def helm(program: Path, folder: Path, *words: str, values: Mapping[str, Any] | None) -> str:
    """Run Helm; everything that it keeps for itself goes into a folder of ours. Returns what it prints.

    Args:
        program: Helm.
        folder: for what it keeps.
        words: the command.
        values: of the chart; None for a command that takes none.

    Raises:
        ClusterError: in Helm's own words.
    """
    # HOME and KUBECACHEDIR: Helm would otherwise cache what it learns of an API server in the current folder.
    kept = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HOME", "KUBECACHEDIR")
    homes = dict.fromkeys(kept, str(folder))
    environment = {"PATH": "/usr/bin:/bin", **homes}
    given = [] if values is None else ["--values=-"]
    return output([program, *words, *given], given=json.dumps(values), env=environment)


def _release() -> list[str]:
    return [RELEASE, str(CHART), f"--namespace={names.NAMESPACE}"]
