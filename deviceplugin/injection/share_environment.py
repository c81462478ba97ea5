"""What a container with shares finds in its environment: its GPUs, and how much of each it may use. Pure.

The amounts are those of the container's limits, which nobody can change once the pod exists. An init
container and the container that takes over its slots cannot be told apart before they start: both find the
larger amount, which is also what the ledger counts.
"""

from collections.abc import Iterable, Mapping, Sequence

from cluster import dialect_names, names
from cluster.objects.inventory import Device
from cluster.objects.pods import Container, Pod
from cluster.objects.quantity import parse_count
from cluster.objects.share_request import share_amounts

Environment = dict[str, str]
"""Variable -> value."""


def amounts_of(pod: Pod, containers: Sequence[str], devices: Iterable[Device]) -> tuple[list[int], int]:
    """MiB of each device, 0 if the containers name none, and percent of the compute.

    Raises:
        QuantityError: an amount is not a whole number (the API server refuses those).
    """
    amounts = [amount for name, amount in share_amounts(pod).items() if name in containers]
    memory = [max((amount.memory_on(device) for amount in amounts), default=0) for device in devices]
    return memory, max((amount.cores for amount in amounts), default=0)


def share_environment(pod: Pod, containers: Sequence[str], devices: Iterable[Device]) -> Environment:
    """Variable -> value, for the containers that have exactly these devices.

    Args:
        pod: their pod, which has been admitted.
        containers: their names.
        devices: those that they share.

    Raises:
        QuantityError: an amount is not a whole number (the API server refuses those).
    """
    shared = sorted(devices, key=lambda device: device.uuid)
    memory, cores = amounts_of(pod, containers, shared)
    found = {names.DEVICES_VARIABLE: ",".join(device.uuid for device in shared)}
    if all(memory):
        found[names.GPU_MEMORY_VARIABLE] = ",".join(map(str, memory))
    if cores:
        found[names.GPU_CORES_VARIABLE] = str(cores)
    return found | _of_gpushare(pod, containers, shared, memory=memory)


def _of_gpushare(
    pod: Pod, containers: Sequence[str], devices: Sequence[Device], *, memory: Sequence[int]
) -> dict[str, str]:
    """The variables of gpushare, for a container with its resource; its unit follows from the two amounts."""
    requested = {one.name: _aliyun(one) for one in _containers(pod)}
    own = max((requested.get(name, 0) for name in containers), default=0)
    if not own or not devices or not memory[0]:
        return {}
    first = devices[0]
    unit = max(1, memory[0] // own)
    values = {
        "IDX": first.index,
        "POD": sum(requested.values()),
        "CONTAINER": own,
        "DEV": first.memory // unit,
    }
    return {f"{dialect_names.ALIYUN_VARIABLE}{key}": str(value) for key, value in values.items()}


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))


def _aliyun(container: Container) -> int:
    limits: Mapping[str, str | int] = (container.resources.limits if container.resources else None) or {}
    return parse_count(str(limits.get(names.ALIYUN_MEMORY, 0)))
