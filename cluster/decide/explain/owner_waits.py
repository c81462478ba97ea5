"""Messages about nodes that wait to change who gives out their GPUs."""

from collections.abc import Iterable, Iterator

from cluster.decide.explain.holders import MayName
from cluster.decide.explain.snapshot import ExplanationSnapshot, counted, few
from cluster.decide.ledger.amounts import Holding
from cluster.decide.node_fit import node_rejection
from cluster.decide.predicates import OWNER_WAITS, rejection
from cluster.decide.request import GpuRequest
from cluster.objects.inventory import Device, is_replica
from cluster.objects.pods import Pod


def late_nodes(pod: Pod, request: GpuRequest, snapshot: ExplanationSnapshot) -> list[str]:
    """The nodes that suit the pod, and would do if they did not wait to change who gives out their GPUs."""
    return [
        name
        for name, (view, agent) in sorted(snapshot.node_snapshots.items())
        if not (name in snapshot.nodes and node_rejection(pod, snapshot.nodes[name]))
        and rejection(request, view, agent) == OWNER_WAITS
    ]


def until_they_change(
    nodes: Iterable[str], snapshot: ExplanationSnapshot, may_name: MayName
) -> Iterator[str]:
    """For which pods these nodes wait, as far as that is known: the next owner cannot know of their GPUs."""
    for node in nodes:
        view, _ = snapshot.node_snapshots[node]
        devices = {device.uuid: device for device in view.devices}
        there = [
            snapshot.pods[each.uid]
            for each in view.holdings
            if each.uid in snapshot.pods
            and any(_keeps_owner(part, devices.get(uuid)) for uuid, part in each.devices.items())
        ]
        named = sorted(one.key for one in there if may_name(one))
        if there:
            yield f"{node} waits for {counted(len(there), 'pod')}{f': {few(named)}' if named else ''}."


def _keeps_owner(part: Holding, device: Device | None) -> bool:
    if device and device.numbered:
        return is_replica(device)
    return bool(part.claim or part.mode)
