"""How many pods may be on their way to a node before its kubelet has answered for the first of them. Pure.

Every pod that is bound to a node whose agent has died is lost, so as few as possible may be on their way at
that moment; but one at a time costs more than half of the pods a second that a kubelet could take. So, as TCP
does with segments: a node starts with one, each answer that admits a pod widens its window by one, and a
rejection, a silence or a late Lease closes it to one again. The death of an agent costs no more pods than the
node's window is wide.
"""

from typing import Final

LARGEST: Final = 8
"""Pods, unless a setting says otherwise. 1: one after the other."""
SILENT_AFTER: Final = 2.0
"""Seconds without an answer for a pod after which its kubelet counts as silent; usual are some hundredths."""


class AnswerWindows:
    """The window of each node."""

    def __init__(self, largest: int = LARGEST) -> None:
        """Args: largest: the number of pods to which a window may widen, at least 1."""
        self._largest: Final = largest
        self._sizes: dict[str, int] = {}

    def size(self, node: str) -> int:
        """The number of pods that may wait for the answer of this node's kubelet at one time."""
        return self._sizes.get(node, 1)

    def widen(self, node: str) -> None:
        """The kubelet has admitted a pod."""
        self._sizes[node] = min(self.size(node) + 1, self._largest)

    def close(self, node: str) -> None:
        """The kubelet has rejected a pod or says nothing, the agent's Lease is late, or the node is gone."""
        self._sizes.pop(node, None)
