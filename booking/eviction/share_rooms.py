"""Nodes on which a pod with shares may find room without an eviction: kept between passes."""

from collections.abc import Mapping
from typing import Final
from weakref import ref

from cluster.decide.available import shares_on
from cluster.decide.ledger import NodeView
from cluster.decide.request import GpuRequest, RequestKey
from cluster.decide.share_fit import fits

KINDS: Final = 4
"""Number of kinds of requests for which the nodes are kept."""


class ShareRooms:
    """For the last few kinds of requests, what was found about each node."""

    def __init__(self) -> None:
        self._known: dict[RequestKey, dict[str, tuple[ref[NodeView], bool]]] = {}
        """Weak references: a kind that nobody asks for any more keeps no old view in memory."""

    def of(self, request: GpuRequest, views: Mapping[str, NodeView]) -> list[str]:
        """The nodes that may have room, sorted; the others have none.

        Args:
            request: of a pod with shares, without a hold.
            views: node -> its devices; the same object as long as nothing has changed.
        """
        before = self._known.pop(request.key, {})
        self._known[request.key] = found = {
            name: known
            if (known := before.get(name)) and known[0]() is view
            else (ref(view), _may_have_room(request, view))
            for name, view in views.items()
        }
        if len(self._known) > KINDS:
            del self._known[next(iter(self._known))]
        return sorted(name for name, (_, may) in found.items() if may)


def _may_have_room(request: GpuRequest, view: NodeView) -> bool:
    if view.fault or view.unknown or not shares_on(request, view):
        return False
    return bool(view.on_hold) or (not _is_full(request, view) and fits(request, view.unreserved_offer))


def _is_full(request: GpuRequest, view: NodeView) -> bool:
    """Whether no device has the memory for the least of the shares: quicker to see than whether all fit."""
    amounts = [need.amount for need in request.share.needs] if request.share else ()
    for device in view.devices:
        use = view.held.get(device.uuid)
        if device.share and (use is None or not use.whole):
            free = device.share.memory - (use.memory if use else 0)
            if any(amount.memory_on(device) <= free for amount in amounts):
                return False
    return True
