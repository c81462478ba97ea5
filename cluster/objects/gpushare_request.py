"""What a pod of gpushare's users asks for: ``aliyun.com/gpu-mem``, beside the same amount in MiB.

The unit, GiB or MiB, is that of the installation: it follows from the two amounts, which admission has
written into the limits of the same container.
"""

from collections.abc import Mapping

import msgspec

from cluster import names
from cluster.objects.pods import Container, Pod
from cluster.objects.quantity import parse_count
from cluster.objects.share_request import share_amounts


class GpushareRequest(msgspec.Struct, frozen=True):
    """The amounts in gpushare's unit."""

    of_containers: Mapping[str, int]
    """Init containers, too; those without such a limit are missing."""
    of_pod: int
    """Of its containers without init containers, as gpushare's tools add them up."""
    unit: int
    """MiB."""


def gpushare_request_of(pod: Pod) -> GpushareRequest | None:
    """The request; None for a pod that does not ask in gpushare's way.

    Raises:
        QuantityError: an amount is not a whole number (the API server refuses those).
    """
    amounts = share_amounts(pod)
    everybody = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    found = {one.name: count for one in everybody if (count := _limit(one)) and one.name in amounts}
    if not found:
        return None
    units = [memory // count for name, count in found.items() if (memory := amounts[name].memory)]
    of_pod = sum(found.get(one.name, 0) for one in pod.spec.containers or ())
    return GpushareRequest(found, of_pod, max(1, min(units, default=1)))


def _limit(container: Container) -> int:
    limits = (container.resources.limits if container.resources else None) or {}
    return parse_count(str(limits.get(names.ALIYUN_MEMORY, 0)))
