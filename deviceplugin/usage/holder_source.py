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
from deviceplugin.usage.holders import HolderSnapshot, holders


class HolderSource:
    """Reads when asked, from any thread."""

    def __init__(
        self,
        device_cache: DeviceCache,
        checkpoint: CheckpointReader,
        pods: Callable[[], tuple[Pod, ...] | None],
        claimed: Callable[[], frozenset[str] | None] = frozenset,
    ) -> None:
        """Nothing is read yet.

        Args:
            device_cache: has the devices of this node.
            checkpoint: the kubelet's.
            pods: returns the pods of this node; None if they cannot be read now.
            claimed: returns the devices that claims have; None if that is not known.
        """
        self._claimed = claimed
        self._device_cache = device_cache
        self._checkpoint = checkpoint
        self._pods = pods
        self._had: tuple[Pod, ...] = ()

    def snapshot(self) -> HolderSnapshot:
        """The holders of each device now."""
        holdings = self._holdings()
        pods = self._pods()
        if pods is not None:
            self._had = pods
        known = self._had if pods is None else pods
        devices = self._device_cache.now.devices
        holdings = holdings and with_seen(holdings, known)
        held = holders(devices, holdings, known, is_current=pods is not None)
        limits = share_limits(devices, holdings, known)
        claimed = self._claimed()
        if claimed is None:
            claimed = frozenset(device.uuid for device in devices)
        return HolderSnapshot(held, known, limits, claimed, is_certain=holdings is not None)

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
