"""GPUs of a node with what is left of each, ready for one question: does a share of some size fit?

Each ``NodeView`` has a few of them, which it makes once: nothing in them depends on a pod, and a pod of a new
size is judged on every node.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property

from cluster.decide.ledger.amounts import Room
from cluster.objects.inventory import Device

Rooms = Mapping[str, tuple[tuple[Device, Room], ...]]
"""Model -> GPUs, with what is left of each."""


class Offer:
    """GPUs, and what is left of each."""

    def __init__(self, rooms: Rooms) -> None:
        """Args: rooms: the GPUs."""
        self.rooms = rooms

    @cached_property
    def best(self) -> Rooms:
        """Those of the GPUs that have room and that no other one surpasses in everything.

        Whatever share fits on one of ``rooms``, fits on one of these; a node has one or two for each model.
        """
        return {model: _best(found) for model, found in self.rooms.items()}


def _best(found: Iterable[tuple[Device, Room]]) -> tuple[tuple[Device, Room], ...]:
    kept: list[tuple[Device, Room]] = []
    for one in sorted(found, key=_size, reverse=True):
        if one[1].memory > 0 and not any(_surpasses(other, one) for other in kept):
            kept.append(one)
    return tuple(kept)


def _size(one: tuple[Device, Room]) -> tuple[int, int, int, int]:
    room = one[1]
    return room.memory, room.compute, room.slots, len(room.modes)


def _surpasses(one: tuple[Device, Room], other: tuple[Device, Room]) -> bool:
    """Whether a GPU takes every share that another one takes, also one that is a part of what it offers."""
    (device, room), (worse, less) = one, other
    return (
        room.memory >= less.memory
        and room.compute >= less.compute
        and room.slots >= less.slots
        and room.modes >= less.modes
        and device.share == worse.share
        and device.memory == worse.memory
    )
