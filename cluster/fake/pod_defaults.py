"""How the real server completes a new pod before it is stored: defaults, priority, its first status."""

from typing import Any, Final

from cluster.fake.errors import refusal
from cluster.fake.kinds import PRIORITY_CLASSES
from cluster.fake.store import Store
from cluster.kube.errors import Request

Json = dict[str, Any]

DEFAULT_GRACE: Final = 30
"""Seconds of grace that are filled in if a pod has none."""

_DEFAULTS: Final[Json] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": DEFAULT_GRACE,
    "schedulerName": "default-scheduler",
}


def defaulted(pod: Json) -> Json:
    """The pod with the defaults that are filled in when it is decoded: webhooks see this.

    Only the defaults that our parts or tests read. Missing requests are set to the limits.
    """
    spec = pod.get("spec") or {}
    filled = {key: value for key, value in _DEFAULTS.items() if spec.get(key) in {None, ""}}
    lists = {key: [_with_requests(c) for c in spec[key]] for key in _CONTAINERS if spec.get(key)}
    return {**pod, "spec": {**spec, **filled, **lists}}


def prioritised(request: Request, store: Store, pod: Json) -> Json:
    """The pod with the priority of its class, as the admission plugin ``Priority`` gives it.

    It runs before the webhooks and after them, so a webhook that changes the class must drop the number.
    Before the first PriorityClass object is created, every name is accepted.
    """
    classes = [state.obj for state in store.table(PRIORITY_CLASSES).all(None)]
    spec = pod["spec"]
    if not classes:
        return pod if spec.get("priority") is not None else {**pod, "spec": {**spec, "priority": 0}}
    name = spec.get("priorityClassName")
    chosen = next((one for one in classes if _is_chosen(one, name)), None)
    if name and chosen is None:
        raise _forbidden(request, pod, f"no PriorityClass with name {name} was found")
    value = int(chosen.get("value") or 0) if chosen else 0
    if spec.get("priority") not in {None, value}:
        message = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise _forbidden(request, pod, message)
    named = {"priorityClassName": chosen["metadata"]["name"]} if chosen else {}
    return {**pod, "spec": {**spec, **named, "priority": value}}


def born(pod: Json, at: str) -> Json:
    """The pod with the status of one that was just created."""
    status: Json = {"phase": "Pending"}
    if pod["spec"].get("schedulingGates"):
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": at,
        }
        status["conditions"] = [condition]
    return {**pod, "status": status}


_CONTAINERS: Final = ("containers", "initContainers")


def _with_requests(container: Json) -> Json:
    resources = container.get("resources") or {}
    if not resources.get("limits"):
        return container
    requests = {**resources["limits"], **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def _is_chosen(one: Json, name: str | None) -> bool:
    return bool(one["metadata"]["name"] == name if name else one.get("globalDefault"))


def _forbidden(request: Request, pod: Json, why: str) -> Exception:
    name = pod["metadata"].get("name") or "Unknown"
    return refusal(request, 403, "Forbidden", f'pods "{name}" is forbidden: {why}')
