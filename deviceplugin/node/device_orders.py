"""Administrators' orders about GPUs, read from the Node: about single ones, and whether they may be shared.

A reflector of this one Node feeds ``DeviceOrdersHandler``. An annotation that cannot be read changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import structlog

from cluster import names
from cluster.objects.device_orders import DeviceOrdersError, device_orders_of
from cluster.objects.nodes import Node

log = structlog.get_logger(__name__)

NEVER: Final = "never"
"""Value of the label of a Node whose GPUs are given whole only."""


class Share(Protocol):
    """Takes over whether GPUs may be shared."""

    def __call__(self, *, is_wanted: bool) -> None:
        """Set it, as far as the settings allow."""
        ...


class DeviceOrdersHandler:
    """A handler of ``cluster.kube.reflector``."""

    def __init__(
        self,
        cordon: Callable[[Mapping[str, str]], None],
        clear: Callable[[str, str], None],
        share: Share,
    ) -> None:
        """Nothing is ordered yet.

        Args:
            cordon: gets uuid -> reason of all cordoned devices.
            clear: gets a uuid and its order.
            share: gets whether GPUs may be shared.
        """
        self._cordon = cordon
        self._clear = clear
        self._share = share
        self._last: object = None

    def replace(self, items: Sequence[Node], version: str, /) -> None:
        """A list with the Node, or an empty one: then nothing changes."""
        del version
        for node in items:
            self.upsert(node)

    def upsert(self, node: Node, /) -> None:
        """The Node as it is now."""
        self._share(is_wanted=(node.metadata.labels or {}).get(names.SHARE_LABEL) != NEVER)
        try:
            orders = device_orders_of(node)
        except DeviceOrdersError as error:
            log.warning("the device orders of this node cannot be read and are ignored", message=str(error))
            return
        if orders == self._last:
            return
        self._last = orders
        self._cordon({uuid: order.cordoned for uuid, order in orders.items() if order.cordoned is not None})
        for uuid, order in orders.items():
            if order.cleared is not None:
                self._clear(uuid, order.cleared.isoformat())

    def remove(self, node: Node, /) -> None:
        """The Node is gone, and the orders on it."""
        del node
        self._last = None
        self._cordon({})
        self._share(is_wanted=True)
