"""Writes the Node's labels, separately from the inventory: if they are refused, everything else continues."""

from collections.abc import Callable, Mapping
from typing import Final

import structlog

from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.kube.resources import NODES
from cluster.objects.nodes import Node
from cluster.process.clock import Clock
from deviceplugin.node.label_changes import change

RETRY_AFTER: Final = 10.0
"""Seconds before another attempt to write labels that could not be written."""

log = structlog.get_logger(__name__)


class LabelWriter:
    """Used by the publisher's thread, which knows the Node."""

    def __init__(self, kube: Kube, wanted: Callable[[], Mapping[str, str] | None], clock: Clock) -> None:
        """Args: wanted: the labels; None while they are not known."""
        self._kube = kube
        self._wanted = wanted
        self._clock = clock
        self._not_before = 0.0

    def write(self, node: Node) -> Node:
        """Write the Node's labels if they differ, after reading it again; returns the Node afterwards."""
        if not any(change(self._wanted(), node)) or self._clock.monotonic() < self._not_before:
            return node
        try:
            return self._write(self._kube.get(NODES, node.metadata.name))
        except ApiError as error:
            self._not_before = self._clock.monotonic() + RETRY_AFTER
            log.warning(
                "node labels could not be written",
                message=f"The labels could not be written to the Node: {error}",
            )
            return node

    def _write(self, node: Node) -> Node:
        labels, annotations = change(self._wanted(), node)
        if not labels and not annotations:
            return node
        # A label that another program has just written is not overwritten.
        unchanged = {"resourceVersion": node.metadata.resource_version}
        metadata = {**unchanged, "labels": labels, "annotations": annotations}
        log.info("node labels written", node=node.metadata.name, keys=sorted(labels))
        return self._kube.patch(NODES, node.metadata.name, {"metadata": metadata})
