"""Writes the label that says who gives out the node's GPUs now, to which another plugin may be tied."""

from typing import Final

import structlog

from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.kube.resources import NODES
from cluster.objects.nodes import Node
from cluster.process.clock import Clock

RETRY_AFTER: Final = 10.0
"""Seconds before another attempt to write a label that could not be written."""

log = structlog.get_logger(__name__)


class GivenBy:
    """Used by the publisher's thread, which knows the Node."""

    def __init__(self, kube: Kube, whose: str, clock: Clock) -> None:
        """Args: whose: plugin or driver, as the label ``names.DEVICE_PLUGIN`` would name it."""
        self._kube = kube
        self._whose = whose
        self._clock = clock
        self._not_before = 0.0

    def write(self, node: Node) -> Node:
        """Write the label if the Node has another; returns the Node afterwards."""
        is_there = (node.metadata.labels or {}).get(names.GIVEN_BY) == self._whose
        if is_there or self._clock.monotonic() < self._not_before:
            return node
        try:
            return self._kube.patch(
                NODES, node.metadata.name, {"metadata": {"labels": {names.GIVEN_BY: self._whose}}}
            )
        except ApiError as error:
            self._not_before = self._clock.monotonic() + RETRY_AFTER
            log.warning("the Node's label could not be written", label=names.GIVEN_BY, message=str(error))
            return node
