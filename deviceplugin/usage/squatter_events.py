"""Events on the Node about processes that use a GPU which their pod does not hold."""

from collections.abc import Iterable, Mapping
from typing import Final

import structlog

from cluster import event_reasons
from cluster.kube.events import EventRecorder
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from deviceplugin.usage.snapshot import UsageSnapshot
from deviceplugin.usage.squatters import SquattingProcess

log = structlog.get_logger(__name__)

_MIB: Final = 1 << 20
MOST_AT_ONCE: Final = 10
"""Maximum number of Events for one snapshot; the metrics count all squatters."""


def squatter_message(one: SquattingProcess, pods: Mapping[str, Pod]) -> str:
    """The process, the GPU that it uses, and the pods that hold that GPU."""
    process = f"Process {one.seen.pid} ({one.seen.command})"
    used = "" if one.memory is None else f" and {one.memory // _MIB} MiB of its memory"
    held = _pods(one.held_by, pods)
    whose = f"It is held by {held}." if held else "No pod holds it."
    return f"{process} of {_owner(one, pods)} uses GPU {one.index} ({one.device}){used}. {whose}"


class SquatterReporter:
    """Reports each squatter once. ``observe`` and ``report`` may be called by different threads."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._node: Node | None = None
        self._reported: frozenset[tuple[str, int, str]] = frozenset()

    def observe(self, node: Node) -> None:
        """Take over the Node that Events are about; until it is known, they wait."""
        self._node = node

    def report(self, snapshot: UsageSnapshot) -> None:
        """Report the squatters that are new since the last call."""
        node = self._node
        if node is None:
            return
        new = [one for one in snapshot.squatting if one.key not in self._reported]
        reported = new[:MOST_AT_ONCE]
        for one in reported:
            text = squatter_message(one, snapshot.pods)
            log.warning(
                "a process uses a GPU that its pod does not hold",
                device=one.device,
                pid=one.seen.pid,
                message=text,
            )
            self._recorder.warning(node, event_reasons.GPU_SQUATTED, text)
        present = {one.key for one in snapshot.squatting}
        self._reported = (self._reported & present) | {one.key for one in reported}


def _owner(one: SquattingProcess, pods: Mapping[str, Pod]) -> str:
    uid = one.seen.owner.uid
    if uid is None:
        where = f" ({one.seen.owner.unit})" if one.seen.owner.unit else ""
        return f"no pod{where}"
    return _pods((uid,), pods)


def _pods(uids: Iterable[str], pods: Mapping[str, Pod]) -> str:
    return ", ".join(f"pod {pods[uid].key}" if uid in pods else f"a pod with uid {uid}" for uid in uids)
