"""Keeps the inventories of nodes without an agent, by ``counting``: the leader's thread.

Level-triggered: each round compares what every such Node has with what it should have, and patches those that
differ. A Node that cannot be written is tried again in the next round.
"""

import threading
from collections.abc import Callable
from typing import Final

import structlog

from booking.controller.counted_nodes.counting import WithoutAgent, wanted
from cluster.cache import ClusterCache
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import NODES
from cluster.process.clock import Clock

EVERY: Final = 1.0
"""Seconds between two rounds."""

log = structlog.get_logger(__name__)


class CountedNodes:
    """Writes while it may: only the leader does, and only while the cache can be trusted (law L6)."""

    def __init__(
        self,
        kube: Kube,
        cache: ClusterCache,
        clock: Clock,
        *,
        without_agent: WithoutAgent,
        may_act: Callable[[], bool],
    ) -> None:
        """Args: without_agent: which nodes have no agent; may_act: whether anything may be written now."""
        self._kube = kube
        self._cache = cache
        self._clock = clock
        self._without_agent = without_agent
        self._may_act = may_act

    def run(self, stop: threading.Event) -> None:
        """Write until the stop event is set."""
        while not self._clock.wait(stop, EVERY):
            self.once()

    def once(self) -> None:
        """One round."""
        if not self._may_act():
            return
        with self._cache.locked() as ledger:
            nodes = {name: (node, ledger.view(name)) for name, node in self._cache.nodes.items()}
        for name, (node, view) in nodes.items():
            want = wanted(node, view.held.keys(), self._without_agent)
            patch = {key: text for key, text in want.items() if node.metadata.annotation(key) != text}
            if patch:
                self._write(name, patch)

    def _write(self, name: str, patch: dict[str, str | None]) -> None:
        try:
            node = self._kube.patch(NODES, name, {"metadata": {"annotations": patch}})
        except NotFound:
            return
        except ApiError as error:
            log.warning("the GPUs of a node could not be written", node=name, message=str(error))
            return
        self._cache.of(NODES).upsert(node)
        log.info("the GPUs of a node without an agent are counted", node=name, keys=sorted(patch))
