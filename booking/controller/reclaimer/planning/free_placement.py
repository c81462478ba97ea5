"""Booked pods that fit on free devices during one round of planning: they need no plan.

The scheduler decides which devices such a pod gets. So that the next pod does not count on the same ones,
some are reserved for it here. Whether the next pod needs a victim is decided without that guess: only where
free devices cannot serve all of them in any way (law L3). While that is not certain, it waits
until the others are bound.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from booking.controller.reclaimer.planning.node_candidates import ANY, NodeCandidates
from booking.controller.reclaimer.planning.waiting_pod import WaitingPod
from cluster.decide.scheduler_filters import Checker

FreeVerdict = Literal["placed", "maybe", "full"]
"""Whether a pod takes free devices: it does; it may, once others are bound; no free device is for it."""


@dataclass
class _Taker:
    """A pod that takes free devices."""

    asking: WaitingPod
    checker: Checker
    node: str | None
    """The node that it is expected to take; None for one that waits for the others to be bound."""
    nodes: frozenset[str] | None = field(default=None)


class FreePlacement:
    """Which waiting pod is expected to take which free devices."""

    def __init__(self, candidates: NodeCandidates) -> None:
        self._candidates = candidates
        self._takers: dict[str, list[_Taker]] = {}
        self._with_free: dict[str, list[str]] = {}

    def take(self, asking: WaitingPod, firm: Checker) -> tuple[FreeVerdict, str | None, tuple[str, ...]]:
        """Whether a pod takes free devices, and the node and devices that it is expected to take.

        Args:
            asking: the pod.
            firm: checks nodes without the pods that only take free devices.
        """
        if found := self.place(asking):
            node, devices = found
            self._candidates.reserve(node, devices)
            self._note(_Taker(asking, firm, node))
            return "placed", node, devices
        taker = _Taker(asking, firm, None)
        if not self._nodes(taker) or not self._could_all_be_served(taker):
            return "full", None, ()
        self._note(taker)
        return "maybe", None, ()

    def place(self, asking: WaitingPod, *, is_on_hold: bool = False) -> tuple[str, tuple[str, ...]] | None:
        """A node on which the pod would be placed now, and free devices of it that no other pod counts on.

        ``is_on_hold``: whether they would be held for it, instead of those that are held for it now.
        """
        for node in self._open(asking):
            devices = self._candidates.candidate(node, asking.model, asking.selector).free[: asking.need]
            if len(devices) < asking.need:
                continue
            if (asking.with_hold(node, devices) if is_on_hold else asking).fits(node):
                return node, devices
        return None

    def may_have(self, model: str, need: int) -> bool:
        """Whether some node may have so many devices that nobody counts on: False only if none has."""
        return any(self._candidates.unassigned(node, model) >= need for node in self._nodes_with_free(model))

    def _note(self, taker: _Taker) -> None:
        self._takers.setdefault(taker.asking.model, []).append(taker)

    def _open(self, asking: WaitingPod) -> Iterator[str]:
        """Nodes with enough free devices that are open to the pod; the fullest first, to leave large gaps."""
        model = asking.model
        for node in self._nodes_with_free(model):
            enough = self._candidates.raw_free(node, model, asking.selector) >= asking.need
            if enough and asking.is_open(node):
                yield node

    def _nodes_with_free(self, model: str) -> list[str]:
        if model not in self._with_free:
            self._with_free[model] = self._candidates.nodes_with_free(model)
        return self._with_free[model]

    def _nodes(self, taker: _Taker) -> frozenset[str]:
        """Nodes where it would fit if no other pod took free devices."""
        if taker.nodes is None:
            asking = taker.asking
            taker.nodes = frozenset(n for n in self._open(asking) if asking.fits(n, taker.checker))
        return taker.nodes

    def _could_all_be_served(self, taker: _Taker) -> bool:
        """False only if the pods that depend on the same nodes need more than there is (Hall's condition)."""
        model, nodes, selector = taker.asking.model, set(self._nodes(taker)), taker.asking.selector
        need, rest = taker.asking.need, list(self._takers.get(model, ()))
        while near := [one for one in rest if self._is_near(one, nodes)]:
            need += sum(one.asking.need for one in near)
            rest = [one for one in rest if not self._is_near(one, nodes)]
            nodes.update(*(self._nodes(one) for one in near))
            if any(one.asking.selector != selector for one in near):
                selector = ANY
        return need <= sum(self._candidates.raw_free(node, model, selector) for node in nodes)

    def _is_near(self, taker: _Taker, nodes: set[str]) -> bool:
        """Whether it is expected on one of the nodes, or waits for one."""
        return taker.node in nodes if taker.node else not nodes.isdisjoint(self._nodes(taker))
