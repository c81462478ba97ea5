"""Who has the GPUs that would fit a waiting pod, and until when: in sentences."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cluster.decide.explain.scene import Scene, at, counted, listed
from cluster.decide.ledger import NodeView
from cluster.decide.offer import suiting
from cluster.decide.suits import misfit
from cluster.decide.wish import Wish
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod, is_terminating
from cluster.objects.stamps import terminate_at

_NAMED: Final = 3
"""So many holders are named; the others are counted."""

_NEVER: Final = datetime.max.replace(tzinfo=UTC)

MayName = Callable[[Pod], bool]
"""Whether whoever asks may learn which pod it is."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """A GPU that would fit, and who has it."""

    holder: Pod | None
    """None where nobody has it yet: it is kept for a pod that waits."""
    booked: bool
    until: datetime | None
    """When its holder's time is over, None where nobody has said."""


def holders(pod: Pod, wish: Wish, scene: Scene, may_name: MayName) -> Iterator[str]:
    """What is taken of the GPUs that would fit, by whom, and until when; nothing where none is taken.

    Args:
        pod: that waits.
        wish: what it wants.
        scene: the cluster.
        may_name: of whom the name may be told.
    """
    taken = list(_taken(pod, wish, scene))
    kinds = {
        "booked pods": [one for one in taken if one.holder and one.booked],
        "pods without a booking": [one for one in taken if one.holder and not one.booked],
    }
    parts = [f"{kind} use {len(found)}{_first(found)}" for kind, found in kinds.items() if found]
    kept = sum(one.holder is None for one in taken)
    if parts:
        yield f"Of the GPUs that would fit, {listed(parts)}."
    if kept:
        yield f"{counted(kept, 'GPU')} that would fit {'is' if kept == 1 else 'are'} kept for booked pods."
    yield from _named(taken, may_name)


def _first(found: list[_Taken]) -> str:
    until = min((one.until for one in found if one.until), default=None)
    if until is None:
        return ""
    return f" (until {at(until)})" if len(found) == 1 else f" (the first until {at(until)})"


def _named(taken: list[_Taken], may_name: MayName) -> Iterator[str]:
    seen: dict[str, _Taken] = {}
    for one in taken:
        if one.holder and may_name(one.holder):
            seen.setdefault(one.holder.key, one)
    if not seen:
        return
    known = sorted(seen.items(), key=lambda item: (item[1].until or _NEVER, item[0]))
    told = [f"{key}{f' until {at(one.until)}' if one.until else ''}" for key, one in known[:_NAMED]]
    more = len(known) - _NAMED
    yield f"They are used by {listed([*told, *([f'{more} more'] if more > 0 else [])])}."


def _taken(pod: Pod, wish: Wish, scene: Scene) -> Iterator[_Taken]:
    for name, (view, agent) in sorted(scene.looks.items()):
        node = scene.nodes.get(name)
        if not view.published or agent != "alive" or (node and misfit(pod, node)):
            continue
        by_device = {uuid: claim.uid for claim in view.claims for uuid in claim.devices}
        for device in _fitting(view, wish):
            holder = scene.pods.get(by_device.get(device.uuid, ""))
            if holder is not None:
                yield _of(holder, scene)
            elif device.uuid in view.kept and not view.held.get(device.uuid):
                yield _Taken(None, booked=True, until=None)


def _fitting(view: NodeView, wish: Wish) -> Iterator[Device]:
    for resource in wish.demand:
        for devices in suiting(view.healthy_by_model.get(resource, {}), wish.wished).values():
            yield from devices


def _of(holder: Pod, scene: Scene) -> _Taken:
    booking = scene.cover.get(holder.metadata.uid)
    if booking is not None:
        return _Taken(holder, booked=True, until=booking.spec.end)
    until = holder.metadata.deletion_timestamp if is_terminating(holder) else terminate_at(holder)
    return _Taken(holder, booked=False, until=until if until and until > scene.now else None)
