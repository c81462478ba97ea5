"""What a Binding writes for the tools of gpushare's users, on pods that ask for memory as gpushare's do.

Source: gpushare's design and its extender. Its unit, GiB or MiB, follows from the pod's limits, where
admission has written the same amount in MiB.
"""

from datetime import UTC, datetime
from typing import Final

from cluster import dialect_names, names
from cluster.decide.ledger import AssumedBind, NodeView
from cluster.objects.assignment import devices_of
from cluster.objects.pods import Container, Pod
from cluster.objects.quantity import QuantityError, parse_count
from cluster.objects.share_request import share_amounts

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def gpushare_annotations(assumed: AssumedBind, view: NodeView, decided: datetime) -> dict[str, str]:
    """The annotations; none for a pod that does not ask in gpushare's way, for memory of one GPU.

    Nor for one on a numbered GPU, whose index is not that of the GPU behind it.

    Args:
        assumed: the decision.
        view: the node.
        decided: when it was made.
    """
    if assumed.mode is None:
        return {}
    uuids = devices_of(assumed.assignment)
    device = next((one for one in view.devices if one.uuid in uuids), None)
    requested, unit = _requested(assumed.pod)
    if not requested or len(uuids) != 1 or device is None or device.share is None or device.numbered:
        return {}
    since = decided - _EPOCH
    nanoseconds = ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000
    return {
        dialect_names.GPUSHARE_INDEX: str(device.index),
        dialect_names.GPUSHARE_ID: str(device.index),
        dialect_names.GPUSHARE_DEVICE: str(device.share.memory // unit),
        dialect_names.GPUSHARE_POD: str(requested),
        dialect_names.GPUSHARE_TIME: str(nanoseconds),
        dialect_names.GPUSHARE_ASSIGNED: "true",
    }


def _requested(pod: Pod) -> tuple[int, int]:
    """What its containers ask for in all, and MiB of its unit; (0, 1) for a pod without such a request."""
    try:
        amounts = share_amounts(pod)
        requested = {one.name: _gpushare_limit(one) for one in pod.spec.containers or ()}
    except QuantityError:
        return 0, 1
    units = {amounts[name].memory // count for name, count in requested.items() if count and name in amounts}
    return (sum(requested.values()), max(1, min(units))) if units else (0, 1)


def _gpushare_limit(container: Container) -> int:
    limits = (container.resources.limits if container.resources else None) or {}
    return parse_count(str(limits.get(names.ALIYUN_MEMORY, 0)))
