"""Reads what ``holding`` decides on: the kubelet's record first, its pods afterwards.

In this order, because a pod is known to the kubelet before it is given anything: one that is in the record
and not among the pods has ended.
"""

from collections.abc import Callable

from cluster.objects.pods import Pod
from deviceplugin.admission import Record
from deviceplugin.board import Board
from deviceplugin.checkpoint import CheckpointError, Holdings
from deviceplugin.holders.holding import Look, holders


class Looker:
    """Looks when asked, by any thread."""

    def __init__(self, board: Board, record: Record, pods: Callable[[], tuple[Pod, ...] | None]) -> None:
        """Args: pods: of this node; None where they cannot be had now."""
        self._board = board
        self._record = record
        self._pods = pods
        self._had: tuple[Pod, ...] = ()

    def look(self) -> Look:
        """Who is on each device now."""
        holdings = self._holdings()
        pods = self._pods()
        if pods is not None:
            self._had = pods
        known = self._had if pods is None else pods
        held = holders(self._board.now.devices, holdings, known, is_current=pods is not None)
        return Look(held, known, is_certain=holdings is not None)

    def _holdings(self) -> Holdings | None:
        try:
            return self._record.read()
        except CheckpointError:
            return None
