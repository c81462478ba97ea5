"""Taking single GPUs out of use and back: an administrator's order, which the node's agent carries out."""

import re
from typing import Final

import msgspec

from booking import wording
from booking.principals import Principal
from booking.server.errors import ClusterError, UnknownGpuError
from booking.server.service import audit_entries
from booking.server.service.authorization import require_administrator, required_reason
from booking.server.service.context import GpuOrder, GpuOrders, ServiceContext
from booking.server.service.idempotency import Key, answered, once, spending
from booking.server.store import Writing

_NODE: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_GPU: Final = re.compile(r"[A-Za-z0-9-]{1,63}")


class StoredOrder(msgspec.Struct, frozen=True):
    """The stored result of an order with a key, so that it is not given a second time."""

    gpu: str
    """UUID of the GPU."""


def order_gpu(
    context: ServiceContext,
    who: Principal,
    target: tuple[str, str],
    order: GpuOrder,
    *,
    reason: str,
    key: Key | None,
    dry_run: bool,
) -> str:
    """Order something of a GPU; returns its UUID. The audit is written first, in case this process dies.

    Args:
        context: the service's parts.
        who: asks.
        target: the node, and the GPU by its UUID or its number.
        order: which.
        reason: why.
        key: of the request.
        dry_run: whether nothing is written, neither on the node nor in the database.
    """
    require_administrator(who, f"{order} GPUs")
    if dry_run:
        valid_reason, gpus = _required(context, target, reason)
        return gpus.order(
            *target, order, message=f"{who.user}: {valid_reason}", at=context.clock.now(), dry_run=True
        )
    with spending(context, who, key):
        return _ordered(context, who, target, order, reason=reason, key=key)


def _required(context: ServiceContext, target: tuple[str, str], reason: str) -> tuple[str, GpuOrders]:
    """The reason, and where orders are written, where there can be such a GPU at all."""
    valid_reason = required_reason(reason)
    node, gpu = target
    if not _NODE.fullmatch(node) or not _GPU.fullmatch(gpu):
        raise UnknownGpuError(f"There is no GPU {wording.quoted(gpu)} of a node {wording.quoted(node)}.")
    if context.gpus is None:
        raise ClusterError("This booking server cannot write to nodes.")
    return valid_reason, context.gpus


def _ordered(
    context: ServiceContext,
    who: Principal,
    target: tuple[str, str],
    order: GpuOrder,
    *,
    reason: str,
    key: Key | None,
) -> str:
    valid_reason, gpus = _required(context, target, reason)
    node, gpu = target
    before = context.store.read(lambda reading: answered(reading, who, key, StoredOrder))
    if before:
        return before.gpu
    subject, at = f"{node}/{gpu}", context.clock.now()
    _audit(context, who, f"gpu.{order}", subject=subject, reason=valid_reason)
    try:
        uuid = gpus.order(node, gpu, order, message=f"{who.user}: {valid_reason}", at=at)
    except (UnknownGpuError, ClusterError) as error:
        _audit(context, who, f"gpu.{order}-failed", subject=subject, reason=wording.clipped(str(error)))
        raise
    if key:
        once(context, who, lambda _writing: StoredOrder(uuid), kind=StoredOrder, key=key)
    return uuid


def _audit(context: ServiceContext, who: Principal, action: str, *, subject: str, reason: str) -> None:
    def write(writing: Writing) -> None:
        audit_entries.written(writing, action, who, context.clock.now(), subject=subject, reason=reason)

    context.store.write(write)
