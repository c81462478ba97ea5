"""Events on the Node about pods that use more memory of a shared GPU than their share."""

from collections.abc import Mapping
from typing import Final

import structlog

from cluster import event_reasons
from cluster.kube.events import EventRecorder
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from deviceplugin.allocation.share_limits import Place
from deviceplugin.usage.shares import Overuse
from deviceplugin.usage.snapshot import UsageSnapshot

log = structlog.get_logger(__name__)

_MIB: Final = 1 << 20


def overuse_message(one: Overuse, pods: Mapping[str, Pod]) -> str:
    """The pod, the GPU, what it uses, and what its share is."""
    who = f"Pod {pods[one.uid].key}" if one.uid in pods else f"A pod with uid {one.uid}"
    if others := len(one.together) - 1 if one.together else 0:
        many = "pods that have" if others > 1 else "pod that has"
        who, uses = f"{who} and {others} more {many} its claim", "use"
    else:
        uses = "uses"
    share = "their share" if others else "its share"
    return (
        f"{who} {uses} {one.used // _MIB} MiB of GPU {one.index} ({one.device}), and {share} is"
        f" {one.limit // _MIB} MiB. Others on this GPU may find too little memory."
    )


class OveruseReporter:
    """Reports each pod once, until its use fits again. Two threads may call ``observe`` and ``report``."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._node: Node | None = None
        self._reported: frozenset[Place] = frozenset()

    def observe(self, node: Node) -> None:
        """Take over the Node that Events are about; until it is known, they wait."""
        self._node = node

    def report(self, snapshot: UsageSnapshot) -> None:
        """Report the pods that are new since the last call."""
        node = self._node
        if node is None:
            return
        for one in snapshot.overuse:
            if one.is_first and one.place not in self._reported:
                text = overuse_message(one, snapshot.pods)
                log.warning("a pod uses more of a GPU than its share", device=one.device, message=text)
                self._recorder.warning(node, event_reasons.GPU_MEMORY_EXCEEDED, text)
        self._reported = frozenset(one.place for one in snapshot.overuse)
