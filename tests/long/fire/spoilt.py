"""Pods that will never run: a kubelet gave one what it cannot use, and reports it. Pure."""

from typing import Final

from cluster.kube.resources import WholePod

TO_BE_DELETED: Final = "Delete the pod"
"""What the node agent advises where the kubelet has given a pod what it can never use."""


def spoilt(pod: WholePod) -> str | None:
    """Why it has to be created again, in the kubelet's words; None where it need not be."""
    states = [status.get("state") or {} for status in pod.status.get("containerStatuses") or ()]
    messages = [str((state.get("waiting") or {}).get("message")) for state in states]
    return next((message for message in messages if TO_BE_DELETED in message), None)
