"""The numbered GPUs of a node without an agent, by its labels and its status. Pure.

GPU feature discovery writes ``nvidia.com/gpu.product``, ``.memory`` (MiB), ``.count`` and ``.replicas`` on
the Node, and the same for each MIG profile (``nvidia.com/mig-1g.10gb.product``). How many there are the
kubelet says as well, and it alone how many can be had. Of several models the labels name one, with the number
of its GPUs: fewer than the kubelet has. What only NVML knows is not known here: why a GPU is sick, how it is
used, which are the other models.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Literal

from cluster import names
from cluster.objects.inventory import (
    Device,
    InventoryError,
    encode_inventory,
    inventory_of,
    is_replica,
    numbered_uuid,
    resource_of,
)
from cluster.objects.nodes import Node
from cluster.objects.numbered import with_amount
from cluster.objects.quantity import QuantityError, parse_count

WithoutAgent = Literal["none", "labelled", "all"]
"""Which nodes have no agent: none, those with the label ``names.WITHOUT_AGENT``, or all."""
NOT_READY: Final = "The Node is not Ready"
NAMELESS: Final = "unknown"
"""The model of GPUs that no label names."""


def wanted(node: Node, held: AbstractSet[str], without_agent: WithoutAgent) -> Mapping[str, str | None]:
    """The annotations that the controller writes on a Node; None for one that it removes.

    Args:
        node: any Node.
        held: ids of the numbered GPUs that pods of it hold.
        without_agent: which nodes have no agent.
    """
    is_counted = bool(node.metadata.annotation(names.COUNTED))
    if not _has_no_agent(node, without_agent):
        # What the agent publishes from now on is not ours to remove: it takes away our mark itself.
        return {names.COUNTED: None, names.INVENTORY: None} if is_counted else {}
    found = counted(node, held)
    if not found and not is_counted:
        return {}
    return {
        names.COUNTED: "true",
        names.INVENTORY: encode_inventory(found) if found else None,
        names.DRIFT: None,
    }


def counted(node: Node, held: AbstractSet[str]) -> tuple[Device, ...]:
    """The node's numbered GPUs: none is left out that it had before, but turns when GPUs are given whole."""
    before = _published(node)
    is_ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions or ())
    out = frozenset(device.uuid for device in before if not device.is_healthy)
    found: list[Device] = []
    for resource in sorted({*_offered(node), *map(resource_of, before)}):
        was = [device for device in before if resource_of(device) == resource]
        devices = _devices(node, resource, was, held)
        allocatable = _amount(node.status.allocatable, resource) if is_ready else 0
        reasons = () if is_ready else (NOT_READY,) * len(devices)
        found += with_amount(devices, allocatable, held, reasons=reasons, rather=(out,))
    return tuple(found)


def _has_no_agent(node: Node, without_agent: WithoutAgent) -> bool:
    is_labelled = (node.metadata.labels or {}).get(names.WITHOUT_AGENT) == "true"
    return without_agent == "all" or (without_agent == "labelled" and is_labelled)


def _published(node: Node) -> tuple[Device, ...]:
    try:
        return tuple(device for device in inventory_of(node) if device.numbered)
    except InventoryError:
        return ()


def _offered(node: Node) -> set[str]:
    amounts = (node.status.capacity or {}).keys() | (node.status.allocatable or {}).keys()
    return {name for name in amounts if names.is_gpu_resource(name) and _amount(node.status.capacity, name)}


def _devices(node: Node, resource: str, was: Sequence[Device], held: AbstractSet[str]) -> list[Device]:
    """All GPUs of a resource, as if they were healthy."""
    kind = resource.removesuffix(names.SHARED_SUFFIX)
    turns = max(1, _label_count(node, kind, "replicas"))
    is_renamed = kind != resource
    is_turn = turns > 1 or is_renamed
    labelled = _label_count(node, kind, "count") * turns
    had = (number for number, one in enumerate(was, 1) if is_replica(one) == is_turn or one.uuid in held)
    capacity = _amount(node.status.capacity, resource)
    total = max(capacity, 0 if is_renamed else labelled, *had)
    is_mixed = 0 < labelled < capacity
    model = names.model_label((node.metadata.labels or {}).get(f"{kind}.product", "")) or NAMELESS
    if is_mixed:
        model = names.MIXED_MODEL
    if is_turn and not model.endswith(names.SHARED_MODEL):
        model += names.SHARED_MODEL
    memory = 0 if is_turn or is_mixed else _label_count(node, kind, "memory")
    return [
        Device(
            uuid=_uuid(node.metadata.name, resource, number),
            index=number // turns,
            model=model,
            memory=memory,
            resource=None if resource == names.GPU_RESOURCE else resource,
            numbered=True,
        )
        for number in range(total)
    ]


def _uuid(node: str, resource: str, number: int) -> str:
    """A number under ``nvidia.com/gpu``; another resource's has its name in it."""
    if resource == names.GPU_RESOURCE:
        return numbered_uuid(node, number)
    return f"{numbered_uuid(node, 0)}.{resource.partition('/')[2]}.{number}"


def _label_count(node: Node, resource: str, what: str) -> int:
    return _count((node.metadata.labels or {}).get(f"{resource}.{what}", "0"))


def _amount(amounts: Mapping[str, str | int] | None, resource: str) -> int:
    return _count((amounts or {}).get(resource, 0))


def _count(text: str | int) -> int:
    try:
        return parse_count(str(text))
    except QuantityError:
        return 0
