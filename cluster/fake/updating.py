"""Updates, in which patches end: they cannot change what only the server sets.

As on the real server: ``status`` has its own endpoint, an update without a change is no write, generation
counts changes outside metadata and status, hardly anything in a pod's spec can change, and an object that is
being deleted gets no new finalizer and vanishes with its last one.
"""

from typing import Any, Final

from cluster.fake.core import ServerCore
from cluster.fake.errors import check_finalizers, check_preconditions, invalid, refusal
from cluster.fake.immutable import forbidden_change
from cluster.fake.kinds import COUNTED, PODS, STATUS_ALONE, WITH_STATUS
from cluster.fake.merging import merged
from cluster.fake.state import Json, State
from cluster.kube.errors import Request
from cluster.kube.resources import Resource

SET_BY_SERVER: Final = (
    "uid",
    "creationTimestamp",
    "namespace",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_SET_BY_SERVER: Final = (*SET_BY_SERVER, "name", "generation", "resourceVersion")


def patched(
    core: ServerCore,
    request: Request,
    before: State,
    patch: Json,
    *,
    resource: Resource[Any],
    subresource: str | None,
    dry_run: bool = False,
) -> State:
    """Apply a merge patch; returns the resulting state."""
    if subresource not in {None, "status"} or (subresource and resource.plural not in WITH_STATUS):
        raise refusal(request, 404, "NotFound", "the server could not find the requested resource")
    check_preconditions(request, before.obj, patch.get("metadata") or {}, resource.plural)
    after = merged(before.obj, patch)
    of_status = subresource == "status"
    return updated(core, request, before, after, resource=resource, of_status=of_status, dry_run=dry_run)


def updated(
    core: ServerCore,
    request: Request,
    before: State,
    after: Json,
    *,
    resource: Resource[Any],
    of_status: bool,
    dry_run: bool = False,
) -> State:
    """Write a caller's version of an object as far as allowed; a dry run only returns the result."""
    old = before.obj
    after = _allowed_part(resource.plural, old, after, of_status=of_status)
    after["metadata"] = _metadata(old, after)
    check_finalizers(request, old, after)
    if resource.plural == PODS and (problem := forbidden_change(old, after)):
        raise invalid(request, old, problem)
    if resource.plural in COUNTED and _counted_part(old) != _counted_part(after):
        after["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
    if after == old:
        return before
    if dry_run:
        return State(after)
    if is_over(after):
        core.store.remove(resource, before)
        return State(after)
    return core.store.write(resource, after)


def is_over(obj: Json) -> bool:
    """Whether an object has been deleted and nothing holds it any more: no grace, no finalizer."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _allowed_part(plural: str, old: Json, after: Json, *, of_status: bool) -> Json:
    """What of the change may pass: the status alone, or all but the status."""
    if plural not in WITH_STATUS:
        return dict(after)
    if not of_status:
        rest = {key: value for key, value in after.items() if key != "status"}
        return rest | ({"status": old["status"]} if "status" in old else {})
    if plural in STATUS_ALONE:
        return _with(old, "status", after.get("status"))
    after = _with(after, "spec", old.get("spec"))
    if plural == PODS:
        owners = old["metadata"].get("ownerReferences")
        after["metadata"] = _with(after["metadata"], "ownerReferences", owners)
    return after


def _with(obj: Json, key: str, value: object) -> Json:
    rest = {name: other for name, other in obj.items() if name != key}
    return rest if value is None else {**rest, key: value}


def _metadata(old: Json, after: Json) -> Json:
    kept = {key: old["metadata"][key] for key in _SET_BY_SERVER if key in old["metadata"]}
    given = {key: value for key, value in after["metadata"].items() if key not in _SET_BY_SERVER}
    return {key: value for key, value in {**given, **kept}.items() if value not in (None, {}, [])}


def _counted_part(obj: Json) -> Json:
    return {key: value for key, value in obj.items() if key not in {"metadata", "status"}}
