"""What kube-scheduler has written on a waiting pod, without what is told better elsewhere."""

import re
from typing import Final

from cluster import names
from cluster.decide.explain.snapshot import counted
from cluster.decide.reasons import ALL
from cluster.objects.pods import Pod

_HEAD: Final = re.compile(r"^\d+/\d+ nodes are available: ")
_TAIL: Final = re.compile(r"\.? (?:no new claims to deallocate|preemption: ).*$", re.DOTALL)
_ONE: Final = re.compile(r"(\d+) ((?:(?!, \d+ ).)+)", re.DOTALL)
"""A count and a reason: kube-scheduler 1.34-1.37, ``FitError.Error``."""
_NO_GPU: Final = f"Insufficient {names.GPU_RESOURCE}"
_NO_MIG: Final = f"Insufficient {names.MIG_RESOURCE_PREFIX}"
_OURS: Final = tuple(f" [{cause.code}]" for cause in ALL)
"""How a reason ends that the extender has told it."""


def said(pod: Pod) -> str | None:
    """The message of the condition ``PodScheduled``; None where it is bound or has not been looked at."""
    conditions = pod.status.conditions or ()
    found = next((c for c in conditions if c.type == "PodScheduled" and c.status == "False"), None)
    return found.message if found and found.message else None


def whole(pod: Pod) -> str | None:
    """All that it says, in a sentence; None where it says nothing."""
    message = said(pod)
    return f"The scheduler says: {message.rstrip('.')}." if message else None


def of_its_own(pod: Pod) -> str | None:
    """A sentence of what only it knows, None where that is nothing: its own filters, an attempt that failed.

    What the extender has told it is left out: that is told as it is now.
    """
    message = said(pod)
    if message is None or not _HEAD.match(message):
        return whole(pod)
    text = _TAIL.sub("", _HEAD.sub("", message)).strip().rstrip(".")
    found = [(int(number), reason.strip().rstrip(".")) for number, reason in _ONE.findall(text)]
    if not text or not text[0].isdecimal():  # said of the pod, not of nodes
        return f"The scheduler's own filters say: {text}." if text else None
    others = [(number, reason) for number, reason in found if not _is_known(reason)]
    if not others:
        return None
    told = "; ".join(f"{counted(number, 'node')}: {reason}" for number, reason in others)
    return f"The scheduler's own filters say of {told}."


def _is_known(reason: str) -> bool:
    return reason.endswith(_OURS) or reason == _NO_GPU or reason.startswith(_NO_MIG)
