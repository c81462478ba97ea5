"""kube-scheduler's message on a waiting pod, without the parts that are explained better elsewhere."""

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
"""The endings of reasons that come from the extender."""


def condition_message(pod: Pod) -> str | None:
    """The message of the condition ``PodScheduled``; None if the pod is bound or was not tried yet."""
    conditions = pod.status.conditions or ()
    found = next((c for c in conditions if c.type == "PodScheduled" and c.status == "False"), None)
    return found.message if found and found.message else None


def whole(pod: Pod) -> str | None:
    """The whole message, for people; None if there is none."""
    message = condition_message(pod)
    return f"The scheduler says: {message.rstrip('.')}." if message else None


def of_its_own(pod: Pod) -> str | None:
    """The part that only kube-scheduler knows (its own filters, a failed attempt); None if there is none.

    The extender's reasons are left out: other messages explain them as they are now.
    """
    message = condition_message(pod)
    if message is None or not _HEAD.match(message):
        return whole(pod)
    text = _TAIL.sub("", _HEAD.sub("", message)).strip().rstrip(".")
    found = [(int(number), reason.strip().rstrip(".")) for number, reason in _ONE.findall(text)]
    if not text or not text[0].isdecimal():  # about the pod, not about nodes
        return f"The scheduler's own filters say: {text}." if text else None
    others = [(number, reason) for number, reason in found if not _is_known(reason)]
    if not others:
        return None
    reasons = "; ".join(f"{counted(number, 'node')}: {reason}" for number, reason in others)
    return f"The scheduler's own filters say of {reasons}."


def _is_known(reason: str) -> bool:
    return reason.endswith(_OURS) or reason == _NO_GPU or reason.startswith(_NO_MIG)
