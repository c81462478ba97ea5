"""How objects end: deletion, eviction, and what a kubelet does with a terminating pod.

As on the real server a pod is deleted in two steps. It gets ``deletionTimestamp`` (the instant at which its
grace period ends) and ``deletionGracePeriodSeconds``. It vanishes once the kubelet deletes it with grace 0
and no finalizer is left. If no kubelet works for it, because it is unbound or has ended, the grace is 0 at
once. A later delete can only shorten the grace. Other objects vanish at once, unless a finalizer holds them.
"""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from cluster.decide.budgets import budgets_of
from cluster.fake.binding import with_condition
from cluster.fake.core import ServerCore, text_of
from cluster.fake.errors import check_preconditions, denied, many_budgets, over_budget, refusal
from cluster.fake.kinds import PODS
from cluster.fake.merging import merged
from cluster.fake.pod_defaults import DEFAULT_GRACE
from cluster.fake.state import Json, State
from cluster.kube.errors import Request
from cluster.kube.resources import DISRUPTION_BUDGETS, Resource
from cluster.kube.resources import PODS as POD_OBJECTS
from cluster.names import DISRUPTION_TARGET

_ENDED: Final = frozenset({"Succeeded", "Failed"})


def deleted(core: ServerCore, resource: Resource[Any], state: State, requested_grace: int | None) -> None:
    """Delete an object, or begin its deletion."""
    metadata = state.metadata
    if resource.plural != PODS:
        _delete_at_once(core, resource, state)
        return
    if requested_grace is not None and requested_grace < 0:
        requested_grace = 1
    if not metadata.get("deletionTimestamp"):
        grace = grace_of(state.obj, requested_grace)
        _grant(core, resource, state, until=core.now() + timedelta(seconds=grace), grace=grace)
        return
    present = metadata.get("deletionGracePeriodSeconds") or 0
    if present == 0:
        _delete_at_once(core, resource, state)
    elif requested_grace is not None and requested_grace < present:
        until = msgspec.convert(metadata["deletionTimestamp"], datetime) + timedelta(
            seconds=requested_grace - present
        )
        if until < core.now():
            # A graceful deletion stays graceful, however short.
            until, requested_grace = core.now(), min(requested_grace, 1)
        _grant(core, resource, state, until=until, grace=requested_grace)


def evicted(
    core: ServerCore,
    request: Request,
    state: State,
    body: Json,
    *,
    resource: Resource[Any],
    dry_run: bool = False,
) -> None:
    """Evict a pod: the condition ``DisruptionTarget``, then the deletion.

    Webhooks are asked first. A budget counts only for a pod that runs and is not terminating yet; it is
    checked before the preconditions. A pod that is being deleted already gets the condition, too.
    """
    if (body.get("metadata") or {}).get("name") != state.metadata["name"]:
        raise refusal(request, 400, "BadRequest", "name in URL does not match name in Eviction object")
    options = body.get("deleteOptions") or {}
    if denial := core.forbidden.get(state.metadata["uid"]):
        raise denied(request, *denial)
    dry_run = dry_run or bool(options.get("dryRun"))
    budget = _budget(core, request, state) if is_budgeted(state.obj) else None
    check_preconditions(request, state.obj, options.get("preconditions") or {}, "Pod")
    if dry_run:
        return
    if budget is not None:
        left = {"disruptionsAllowed": budget.obj["status"]["disruptionsAllowed"] - 1}
        core.store.write(DISRUPTION_BUDGETS, merged(budget.obj, {"status": left}))
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    conditions = with_condition(state.obj, condition, text_of(core.now()))
    evicted = merged(state.obj, {"status": {"conditions": conditions}})
    if evicted != state.obj:
        state = core.store.write(resource, evicted)
    deleted(core, resource, state, options.get("gracePeriodSeconds"))


def _budget(core: ServerCore, request: Request, state: State) -> State | None:
    """The budget that counts for a pod, None without one.

    Raises:
        StatusError: the budget allows no disruption, or there are several.
    """
    if state.metadata["uid"] in core.protected:
        raise over_budget(request)
    states = core.store.table(DISRUPTION_BUDGETS.plural).all(state.metadata.get("namespace"))
    there = {one.metadata["name"]: one for one in states}
    about = budgets_of(state.typed(POD_OBJECTS), [one.typed(DISRUPTION_BUDGETS) for one in there.values()])
    if not about:
        return None
    if len(about) > 1:
        raise many_budgets(request)
    found = there[about[0].metadata.name]
    if not (found.obj.get("status") or {}).get("disruptionsAllowed"):
        raise over_budget(request, about[0].metadata.name)
    return found


def finished(core: ServerCore, resource: Resource[Any], state: State, phase: str) -> None:
    """A kubelet reports that all containers of a pod have ended, and releases it.

    An object that is not being deleted, or is not a pod, vanishes, unless it is a pod with finalizers.
    """
    pod = state.obj
    held = pod["metadata"].get("deletionTimestamp") or pod["metadata"].get("finalizers")
    if resource.plural != PODS or not held:
        core.store.remove(resource, state)
        return
    names = [container["name"] for container in (pod.get("spec") or {}).get("containers") or []]
    statuses = [{"name": name, "state": {"terminated": {"exitCode": 0}}} for name in names]
    patch: Json = {"status": {"phase": phase, "containerStatuses": statuses}}
    if pod["metadata"].get("deletionTimestamp"):
        patch["metadata"] = {"deletionGracePeriodSeconds": 0}
    state = core.store.write(resource, merged(pod, patch))
    if not state.metadata.get("finalizers"):
        core.store.remove(resource, state)


def grace_of(pod: Json, requested_grace: int | None) -> int:
    """Seconds of grace that the first delete gives a pod."""
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or _phase(pod) in _ENDED:
        return 0
    return int(
        spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE)
        if requested_grace is None
        else requested_grace
    )


def is_budgeted(pod: Json) -> bool:
    """Whether a PodDisruptionBudget counts for a pod."""
    return _phase(pod) not in {*_ENDED, "Pending"} and not pod["metadata"].get("deletionTimestamp")


def _phase(pod: Json) -> str | None:
    phase: str | None = (pod.get("status") or {}).get("phase")
    return phase


def _grant(core: ServerCore, resource: Resource[Any], state: State, *, until: datetime, grace: int) -> None:
    """Write until when a pod may live; without grace and finalizers it vanishes at once."""
    first = not state.metadata.get("deletionTimestamp")
    metadata: Json = {"deletionTimestamp": text_of(until), "deletionGracePeriodSeconds": grace}
    if first and state.metadata.get("generation"):
        metadata["generation"] = state.metadata["generation"] + 1
    state = core.store.write(resource, merged(state.obj, {"metadata": metadata}))
    if grace == 0 and not state.metadata.get("finalizers"):
        core.store.remove(resource, state)


def _delete_at_once(core: ServerCore, resource: Resource[Any], state: State) -> None:
    metadata = state.metadata
    if not metadata.get("finalizers"):
        core.store.remove(resource, state)
        return
    if metadata.get("deletionTimestamp"):
        return
    changed: Json = {"deletionTimestamp": text_of(core.now()), "deletionGracePeriodSeconds": 0}
    if metadata.get("generation"):
        changed["generation"] = metadata["generation"] + 1
    core.store.write(resource, merged(state.obj, {"metadata": changed}))
