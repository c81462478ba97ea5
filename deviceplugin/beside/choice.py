"""Whose device plugin gives out the node's GPUs: the Node's label says, or else a setting.

An agent keeps to one answer. When the label says another it ends, and its DaemonSet starts it again.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Literal, Protocol, cast, get_args

import structlog

from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.kube.resources import NODES
from cluster.objects.nodes import Node

log = structlog.get_logger(__name__)

Whose = Literal["ours", "existing", "dra"]
"""This agent's, another one that is there already, or none: this agent's driver of claims."""
DEADLINE: Final = 2.0
"""Seconds for the API server: a node whose GPUs are ours must not wait long for its devices."""


class Follower(Protocol):
    """The part of a reflector's handler that gets the newest Node."""

    def replace(self, items: Sequence[Node], version: str, /) -> None:
        """A list."""
        ...

    def upsert(self, obj: Node, /) -> None:
        """The Node as it is now."""
        ...

    def remove(self, obj: Node, /) -> None:
        """The Node is gone."""
        ...


def whose(node: Node, default: Whose) -> Whose:
    """Whose plugin the Node's label names; the default without one, or with one that means nothing."""
    label = (node.metadata.labels or {}).get(names.DEVICE_PLUGIN)
    return cast("Whose", label) if label in get_args(Whose) else default


def at_start(kube: Kube, node: str, default: Whose) -> Whose:
    """Whose plugin it is now; the default where the API server does not answer in time."""
    answer = ThreadPoolExecutor(1, thread_name_prefix="whose-plugin").submit(kube.get, NODES, node)
    try:
        return whose(answer.result(timeout=DEADLINE), default)
    except (ApiError, TimeoutError) as error:
        log.warning("the label of this Node is not known yet", message=str(error), assumed=default)
        return default


class OwnNode:
    """A handler that passes the Node on: to another handler, and to whoever wants to see it."""

    def __init__(self, orders: Follower, *see: Callable[[Node], None]) -> None:
        self._orders = orders
        self._see = see

    def replace(self, items: Sequence[Node], version: str, /) -> None:
        """A list with the Node, or an empty one."""
        self._orders.replace(items, version)
        for node in items:
            self._show(node)

    def upsert(self, obj: Node, /) -> None:
        """The Node as it is now."""
        self._orders.upsert(obj)
        self._show(obj)

    def remove(self, obj: Node, /) -> None:
        """The Node is gone."""
        self._orders.remove(obj)

    def _show(self, node: Node) -> None:
        for see in self._see:
            see(node)


def ending_at_a_change(now: Whose, default: Whose, end: Callable[[str], None]) -> Callable[[Node], None]:
    """A function that ends the agent when the Node's label says something else than now."""

    def see(node: Node) -> None:
        if (wanted := whose(node, default)) != now:
            end(f"the label {names.DEVICE_PLUGIN} says {wanted!r}: the agent begins again")

    return see
