"""Why a pod does not exist: the newest Event of the controller that could not create it. Pure.

People name the pod, its ReplicaSet, Job or StatefulSet, or the Deployment or CronJob above those, whose names
begin the names of what they create.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from booking import wording
from booking.server.cluster_status.quota_messages import REMEDY
from booking.server.cluster_status.why import Why
from cluster import names
from cluster.kube.resources import KubeEvent

STATE: Final = "never created"
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_QUOTA: Final = re.compile(r"exceeded quota: ([^,]+),")
_GPUS: Final = (names.GPU_RESOURCE, names.MIG_RESOURCE_PREFIX)
_PREFIX: Final = re.compile(r"^Error creating: ")


def newest_about(name: str, events: Iterable[KubeEvent]) -> KubeEvent | None:
    """The newest Event about the pod, or the controller of pods, of this name."""
    about = [event for event in events if _is_about(name, event)]
    return max(about, key=last_seen, default=None)


def last_seen(event: KubeEvent) -> datetime:
    """When the Event happened last; the beginning of time if it does not say."""
    series = event.series.last_observed_time if event.series else None
    return series or event.last_timestamp or event.event_time or event.first_timestamp or _NEVER


def why_never_created(event: KubeEvent, *, namespace: str, name: str) -> Why:
    """The explanation of a pod that its controller could not create."""
    controller = f"{event.involved_object.kind} {namespace}/{event.involved_object.name}"
    message = _PREFIX.sub("", " ".join((event.message or "").split())).rstrip(".")
    times = f", {event.count} times so far" if (event.count or 0) > 1 else ""
    return Why(
        namespace=namespace,
        name=name,
        state=STATE,
        because=(
            f"{controller} could not create its pod: {message}.",
            f"The API server refused it last at {wording.instant(last_seen(event))}{times}.",
        ),
        would_change=_would_change(message, namespace),
    )


def _would_change(message: str, namespace: str) -> tuple[str, ...]:
    quota = _QUOTA.search(message)
    if quota is None:
        return ("The controller tries again by itself: change what refuses the pod, or the pod's template.",)
    frees = (
        f"Pods of the namespace {namespace} that end or are deleted free their part of the ResourceQuota"
        f" {quota[1]}; the controller then creates the pod by itself."
    )
    return (frees, REMEDY) if any(kind in message for kind in _GPUS) else (frees,)


def _is_about(name: str, event: KubeEvent) -> bool:
    owner = event.involved_object.name
    # A pod's name is its controller's and one or two more parts (an indexed Job's pods have two).
    return owner == name or bool(
        re.fullmatch(rf"{re.escape(owner)}(-[a-z0-9]+){{1,2}}", name)
        or re.fullmatch(rf"{re.escape(name)}-[a-z0-9]+", owner)
    )
