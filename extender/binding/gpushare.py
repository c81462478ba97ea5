"""What a Binding writes for the tools of gpushare's users, on pods that ask for memory as gpushare's do.

Source: gpushare's design and its extender.
"""

from datetime import UTC, datetime
from typing import Final

from cluster import dialect_names
from cluster.decide.ledger import AssumedBind, NodeView
from cluster.objects.assignment import devices_of
from cluster.objects.gpushare_request import GpushareRequest, gpushare_request_of
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError

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
    asked = _request_of(assumed.pod)
    if asked is None or len(uuids) != 1 or device is None or device.share is None or device.numbered:
        return {}
    since = decided - _EPOCH
    nanoseconds = ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000
    return {
        dialect_names.GPUSHARE_INDEX: str(device.index),
        dialect_names.GPUSHARE_ID: str(device.index),
        dialect_names.GPUSHARE_DEVICE: str(device.share.memory // asked.unit),
        dialect_names.GPUSHARE_POD: str(asked.of_pod),
        dialect_names.GPUSHARE_TIME: str(nanoseconds),
        dialect_names.GPUSHARE_ASSIGNED: "true",
    }


def _request_of(pod: Pod) -> GpushareRequest | None:
    try:
        asked = gpushare_request_of(pod)
    except QuantityError:
        return None
    return asked if asked and asked.of_pod else None
