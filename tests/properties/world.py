"""What is stored, as the API server has it: objects, their newest versions, and everything that happened.

Not the API server in memory, which is a part of what other tests rely on: here an object is a struct, and
its events are delivered by hand, in any order.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Literal, TypeVar

import msgspec

from cluster import names
from cluster.objects.bookings import Booking
from cluster.objects.inventory import Device
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from tests.fakes.objects import A100, A6000, a_pod
from tests.properties.history import Pick

MIG = names.MIG_RESOURCE_PREFIX + "1g.10gb"
SLICE = "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"
MODELS = (A100, A6000)
USERS = ("alice", "bob")
NAMESPACES = ("default", "team")

Stored = TypeVar("Stored", Pod, Node, Booking)


def changed(obj: Stored, **metadata: object) -> Stored:
    """The object with other metadata."""
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, **metadata))


def annotated(obj: Stored, key: str, value: str | None) -> Stored:
    """The object with an annotation, or without it."""
    kept = {k: v for k, v in (obj.metadata.annotations or {}).items() if k != key}
    return changed(obj, annotations=kept if value is None else {**kept, key: value})


@dataclass(frozen=True)
class ObjectEvent(Generic[Stored]):
    """A change of one object."""

    version: int
    obj: Stored
    """As it is after it; of one that is gone as it was last, with the version of its deletion."""
    gone: bool = False


@dataclass
class Versions:
    """The API server's counter."""

    newest: int = 0

    def next(self) -> int:
        """Another one."""
        self.newest += 1
        return self.newest


@dataclass
class Kind(Generic[Stored]):
    """The objects of one kind, and what a watch of it has still to deliver."""

    versions: Versions
    key: Literal["name", "uid"] = "name"
    stored: dict[str, Stored] = field(default_factory=dict)
    pending: list[ObjectEvent[Stored]] = field(default_factory=list)
    delivered: list[ObjectEvent[Stored]] = field(default_factory=list)
    """The last that were delivered: they may come again."""

    def put(self, obj: Stored) -> Stored:
        """Store an object, new or changed."""
        version = self.versions.next()
        obj = changed(obj, resource_version=str(version))
        self.stored[getattr(obj.metadata, self.key)] = obj
        self.pending.append(ObjectEvent(version, obj))
        return obj

    def drop(self, obj: Stored) -> None:
        """An object is gone."""
        version = self.versions.next()
        del self.stored[getattr(obj.metadata, self.key)]
        self.pending.append(ObjectEvent(version, changed(obj, resource_version=str(version)), gone=True))

    def deliver(self, place: int = 0) -> ObjectEvent[Stored]:
        """The event at this place of those that are still to be delivered."""
        event = self.pending.pop(place)
        self.delivered = [*self.delivered[-19:], event]
        return event

    def again(self, pick: Pick) -> ObjectEvent[Stored] | None:
        """Something that was delivered lately."""
        return pick.one(self.delivered[::-1]) if self.delivered else None

    @property
    def items(self) -> tuple[Stored, ...]:
        """A list of all, as of ``versions.newest``."""
        return tuple(self.stored.values())


# --- random objects -----------------------------------------------------------------------------------
def random_devices(pick: Pick, node: str, most: int = 6) -> tuple[Device, ...]:
    """GPUs of a node: two models, unhealthy ones, links, NUMA nodes, some of them cut into slices."""
    found: list[Device] = []
    for index in range(pick.between(0, most)):
        model, unhealthy, numa, linked, cut, memory = pick.many(2, 5, 3, 4, 6, 2)
        uuid = f"GPU-{node}-{index}"
        others = [device.uuid for device in found if device.parent is None]
        found.append(
            Device(
                uuid=uuid,
                index=index,
                model=MODELS[model],
                memory=(81920, 49140)[memory],
                health="unhealthy" if unhealthy == 4 else "healthy",
                numa=(None, 0, 1)[numa],
                links={others[-linked]: linked} if 0 < linked <= len(others) else None,
            )
        )
        if cut == 5:
            found += _slices(uuid, index)
    return tuple(found)


def _slices(parent: str, index: int) -> Iterator[Device]:
    for number in range(2):
        yield Device(
            uuid=f"MIG-{parent}-{number}",
            index=10 * (index + 1) + number,
            model=SLICE,
            memory=9728,
            parent=parent,
            profile="1g.10gb",
        )


def random_pod(pick: Pick, name: str, born: datetime, *, slices: bool = True) -> Pod:
    """A pod that waits: one to three containers of any kind, anybody's, with or without a model."""
    builder = a_pod(name).created(born)
    more, user, namespace, requested = pick.many(4, 5, 4, 6)
    for number in range((1, 1, 1, 3)[more]):
        count, kind, resource = pick.many(5, 6, 8)
        amount, container = (1, 1, 2, 3, 0)[count], f"c{number}"
        of = MIG if slices and resource == 7 else names.GPU_RESOURCE
        if kind == 4:
            builder = builder.init(container, amount, resource=of)
        elif kind == 5:
            builder = builder.sidecar(container, amount, resource=of)
        else:
            builder = builder.asks(amount, container=container, resource=of)
    if user < 4:
        builder = builder.of(USERS[user == 3])
    if requested > 2:
        builder = builder.wants(*((A100,), (A6000,), MODELS)[requested - 3])
    return changed(builder.obj, namespace=NAMESPACES[namespace == 3])
