"""Reads what ``holders`` decides on: the kubelet's checkpoint first, its pods afterwards.

In this order, because a pod is known to the kubelet before it is given anything: one that is in the
checkpoint and not among the pods has ended.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from cluster import names
from cluster.objects.pods import Pod
from cluster.objects.reservation_pods import visible_to
from cluster.objects.slots import slot_id
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.allocation.share_limits import share_limits
from deviceplugin.device_cache import DeviceCache
from deviceplugin.kubelet.checkpoint import CheckpointError, CheckpointReader
from deviceplugin.usage.claimed import ClaimedPart, claimed_shares
from deviceplugin.usage.holders import HolderSnapshot, holders


class HolderSource:
    """Reads when asked, from any thread."""

    def __init__(
        self,
        device_cache: DeviceCache,
        checkpoint: CheckpointReader,
        pods: Callable[[], tuple[Pod, ...] | None],
        claimed: Callable[[], tuple[ClaimedPart, ...] | None] = tuple,
        *,
        all_pods: Callable[[], tuple[Pod, ...]] = tuple,
    ) -> None:
        """Nothing is read yet.

        Args:
            device_cache: has the devices of this node.
            checkpoint: the kubelet's.
            pods: returns the pods of this node; None if they cannot be read now.
            claimed: returns what claims have of the devices; None if that is not known.
            all_pods: returns all pods of this node, those without a request for GPUs too, for naming those
                that have devices by claims.
        """
        self._all_pods = all_pods
        self._claimed = claimed
        self._device_cache = device_cache
        self._checkpoint = checkpoint
        self._pods = pods
        self._had: tuple[Pod, ...] = ()

    def snapshot(self) -> HolderSnapshot:
        """The holders of each device now."""
        holdings, claimed = self._holdings(), self._claimed()
        parts = claimed or ()
        pods = self._pods()
        if pods is not None:
            self._had = pods
        known = self._had if pods is None else pods
        devices = self._device_cache.now.devices
        holdings = holdings and with_seen(holdings, known)
        known = self._with_users(known, parts)
        held = holders(devices, holdings, known, claimed=parts, is_current=pods is not None)
        by_claims = claimed_shares(parts)
        away = (part.device for part in parts) if claimed is not None else (one.uuid for one in devices)
        return HolderSnapshot(
            held,
            known,
            shares={**share_limits(devices, holdings, known), **by_claims.limits},
            together=by_claims.together,
            claimed=frozenset(away),
            is_certain=holdings is not None,
        )

    def _with_users(self, known: tuple[Pod, ...], parts: Iterable[ClaimedPart]) -> tuple[Pod, ...]:
        """The pods, and those that have devices by claims: they need not ask for a GPU by their limits."""
        missing = {uid for part in parts for uid in part.pods} - {pod.metadata.uid for pod in known}
        named = self._all_pods() if missing else ()
        return (*known, *(pod for pod in named if pod.metadata.uid in missing))

    def _holdings(self) -> PodDevices | None:
        try:
            return self._checkpoint.read()
        except CheckpointError:
            return None


def with_seen(holdings: PodDevices, pods: Iterable[Pod]) -> PodDevices:
    """The checkpoint with GPUs that containers with shares see, and of which the kubelet knows nothing.

    As if each had a slot there: another device plugin gives out the GPUs, and a reservation pod has this one.
    """
    seen = {
        (pod.metadata.uid, container.name): frozenset(
            slot_id(uuid, 0) for uuid in visible_to(pod, container.name)
        )
        for pod in pods
        for container in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    }
    known = holdings.slots_of_containers
    missing = {place: slots for place, slots in seen.items() if slots and place not in known}
    if not missing:
        return holdings
    slots = {**holdings.others.get(names.SHARED_RESOURCE, {}), **missing}
    return replace(holdings, others={**holdings.others, names.SHARED_RESOURCE: slots})
