"""Which GPU a pod has where the kubelet chooses: by the node's agent, else by the pod's status. Pure."""

from collections.abc import Sequence

from booking.server.cluster_status.snapshot import StatusSnapshot
from booking.server.cluster_status.usage import Used
from booking.server.cluster_status.viewer import Viewer
from cluster.decide.ledger import NodeView
from cluster.objects.given_devices import as_numbered, given_devices
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod


def given_as(device: Device, view: NodeView, used: Used, holders: Sequence[Pod]) -> str | None:
    """A sentence about the GPU behind a numbered one that pods hold; None if nothing is known of it."""
    if not device.numbered or not holders:
        return None
    if real := used.real(device.uuid):
        return f"The kubelet has given its pod {real}."
    for pod in holders:
        reported = given_devices(pod)
        if real := as_numbered(_held(pod, view), reported).get(device.uuid):
            health = "" if reported[real] else ", which it says is unhealthy"
            return f"The kubelet has given its pod {real}{health}."
    return None


def given_by_agent(pod: Pod, snapshot: StatusSnapshot, viewer: Viewer) -> frozenset[str]:
    """The GPUs that a pod really has, as the agent of its node tells."""
    node = pod.spec.node_name or ""
    view, agent = snapshot.node_snapshots.get(node, (None, "unseen"))
    if view is None or agent != "alive" or not view.is_numbered:
        return frozenset()
    used = Used(snapshot.uses.get(node), snapshot.now, viewer)
    return frozenset(filter(None, map(used.real, _held(pod, view))))


def _held(pod: Pod, view: NodeView) -> frozenset[str]:
    return frozenset(uuid for one in view.holdings if one.uid == pod.metadata.uid for uuid in one.devices)
