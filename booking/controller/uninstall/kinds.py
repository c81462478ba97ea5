"""Kinds of objects of which only the names matter: they are deleted, and never read."""

from typing import Final

from cluster.kube.resources import Resource
from cluster.objects.meta import Meta, Partial


class Named(Partial, frozen=True):
    """An object that is to be deleted: only its name is read."""

    metadata: Meta = Meta()


DEPLOYMENTS: Final = Resource(
    group="apps", version="v1", plural="deployments", kind="Deployment", namespaced=True, type=Named
)
DAEMON_SETS: Final = Resource(
    group="apps", version="v1", plural="daemonsets", kind="DaemonSet", namespaced=True, type=Named
)
POLICY_BINDINGS: Final = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicybindings",
    kind="ValidatingAdmissionPolicyBinding",
    namespaced=False,
    type=Named,
)
CAPACITIES: Final = Resource(
    group="storage.k8s.io",
    version="v1",
    plural="csistoragecapacities",
    kind="CSIStorageCapacity",
    namespaced=True,
    type=Named,
)
