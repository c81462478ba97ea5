"""What a container with shares finds in its environment: its GPUs, and how much of each it may use. Pure.

The amounts are those of the container's limits, which nobody can change once the pod exists. An init
container and the container that takes over its slots cannot be told apart before they start: both find the
larger amount, which is also what the ledger counts.
"""

from collections.abc import Iterable, Sequence

from cluster import dialect_names, names
from cluster.objects.gpushare_request import gpushare_request_of
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
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
    found = told([device.uuid for device in shared], memory, cores)
    return found | _of_gpushare(pod, containers, shared)


def told(uuids: Sequence[str], memory: Sequence[int], cores: int) -> Environment:
    """What every container with shares is told, however its pod asks for them.

    Args:
        uuids: of its devices, in their order.
        memory: MiB of each; one is 0 if no amount is said.
        cores: percent of the compute; 0 if none is said.
    """
    found = {names.DEVICES_VARIABLE: ",".join(uuids)}
    if all(memory):
        found[names.GPU_MEMORY_VARIABLE] = ",".join(map(str, memory))
    if cores:
        found[names.GPU_CORES_VARIABLE] = str(cores)
    return found


def _of_gpushare(pod: Pod, containers: Sequence[str], devices: Sequence[Device]) -> Environment:
    """The variables of gpushare, for a container with its resource: as the Binding's annotations say it."""
    asked = gpushare_request_of(pod)
    own = max((asked.of_containers.get(name, 0) for name in containers), default=0) if asked else 0
    if asked is None or not own or not devices:
        return {}
    first = devices[0]
    offered = first.share.memory if first.share else first.memory
    values = {"IDX": first.index, "POD": asked.of_pod, "CONTAINER": own, "DEV": offered // asked.unit}
    return {f"{dialect_names.ALIYUN_VARIABLE}{key}": str(value) for key, value in values.items()}
