"""L3 for a hold that keeps room for shares: it is enough, and nobody leaves whose share could be left."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod, is_live
from tests.laws.devices import Floor, advertised_devices, device_faults, held, hold_on, needed, selected
from tests.laws.places import Places
from tests.laws.shares import is_sharing, may_share_after
from tests.laws.state import State


@dataclass(frozen=True)
class ShareHold:
    """One hold in the state in which it was decided."""

    pod: Pod
    hold: Hold
    model: str
    state: State
    floor: Floor
    places: Places
    booked: Mapping[str, Booking]
    """Uid -> the booking that covers it; everybody's."""

    def faults(self) -> Iterator[str]:
        """What is wrong with it; of a pod with shares of several GPUs only whether there is room."""
        gone = set(self.hold.victims)
        yield from device_faults(self.pod, self.hold, self.state, self.floor, model=self.model)
        for uid in sorted(gone & self.booked.keys()):
            yield f"its victim {self.state.pods[uid].key} is booked by {self.booked[uid].name}"
        if sum(needed(self.pod).values()) != 1:
            return
        (uuid,) = set(self.hold.devices)
        if not self._fits(uuid, gone):
            yield f"there is no room on {uuid} once its victims have left"
        for uid in sorted(uid for uid in gone if (pod := self.state.pods.get(uid)) and is_live(pod)):
            is_room = self.places.suits(self.pod, self.hold.node, frozenset(gone - {uid}))
            if self._fits(uuid, gone - {uid}) and is_room:
                yield f"its victim {self.state.pods[uid].key} could be spared"
        yield from self._for_nothing() if gone else ()

    def _for_nothing(self) -> Iterator[str]:
        """GPUs with room for which nobody has to go."""
        for node in self.places.open_to(self.pod, list(self.state.nodes)):
            name = node.metadata.name
            usable = selected(self.pod, name, self.state, self.floor.usable(name, self.model))
            for device in advertised_devices(node):
                is_kept = self.floor.kept.get(device.uuid, frozenset()) - {self.pod.metadata.uid}
                if device.uuid not in usable or is_kept or not self._is_allowed(device):
                    continue
                if name not in self.floor.murky and self._fits(device.uuid, set()):
                    yield f"{device.uuid} has room for which nobody has to go"

    def _is_allowed(self, device: Device) -> bool:
        """Whether bookings leave the GPU to the pod: it shares those of its own, if these are enough."""
        booking = self.booked.get(self.pod.metadata.uid)
        theirs = self._shared_by(device.uuid)
        if booking is None or booking.spec.memory is not None:
            return not theirs
        own = {uuid for uuid, by in self._bookings_on.items() if by == {booking.name}}
        if any(self._fits(uuid, self._unbooked(uuid)) for uuid in own):
            return device.uuid in own
        return not theirs or theirs == {booking.name}

    def _shared_by(self, uuid: str) -> set[str]:
        return self._bookings_on.get(uuid, set())

    @cached_property
    def _bookings_on(self) -> Mapping[str, set[str]]:
        """GPU -> bookings that cover shares of it, given or kept."""
        found: dict[str, set[str]] = {}
        for uid, booking in self.booked.items():
            pod = self.state.pods[uid]
            hold = hold_on(pod)
            if is_sharing(pod) and uid != self.pod.metadata.uid:
                for uuid in held(pod, self.state) or (hold.devices if hold else ()):
                    found.setdefault(uuid, set()).add(booking.name)
        return found

    def _unbooked(self, uuid: str) -> set[str]:
        return set(self.floor.holders.get(uuid, ())) - self.booked.keys()

    def _fits(self, uuid: str, gone: set[str]) -> bool:
        """Whether the pod's share fits there beside all who stay."""
        pods = [self.state.pods[uid] for uid in self.floor.holders.get(uuid, ()) if uid not in gone]
        return may_share_after(uuid, self.pod, [pod for pod in pods if is_live(pod)], self.state)
