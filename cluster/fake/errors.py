"""Refusals of the API server in memory, in the words of the real one."""

from collections.abc import Mapping
from typing import Any

from cluster.kube.errors import Refusal, Request, StatusError, refused

Json = dict[str, Any]


def refusal(request: Request, code: int, reason: str, message: str) -> StatusError:
    """An error as our client raises it for such an answer."""
    return refused(request, Refusal(code=code, reason=reason, message=message))


def invalid(request: Request, obj: Json, what: str) -> StatusError:
    """422: a field has a value that it must not have."""
    kind, name = obj.get("kind") or "", obj["metadata"].get("name")
    return refusal(request, 422, "Invalid", f'{kind} "{name}" is invalid: {what}')


def check_preconditions(request: Request, obj: Json, wanted: Mapping[str, Any], what: str) -> None:
    """Refuse if uid or resourceVersion differs from the precondition."""
    metadata = obj["metadata"]
    for key in ("uid", "resourceVersion"):
        if wanted.get(key) and wanted[key] != metadata[key]:
            message = (
                f'Operation cannot be fulfilled on {what} "{metadata["name"]}": Precondition failed: '
                f"{key} in precondition: {wanted[key]}, in object meta: {metadata[key]}"
            )
            raise refusal(request, 409, "Conflict", message)


def check_finalizers(request: Request, before: Json, after: Json) -> None:
    """Refuse a new finalizer on an object that is being deleted."""
    if not before["metadata"].get("deletionTimestamp"):
        return
    known = before["metadata"].get("finalizers") or []
    new = [one for one in after["metadata"].get("finalizers") or [] if one not in known]
    if new:
        listed = ", ".join(f'"{one}"' for one in new)
        what = (
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{listed}}}"
        )
        raise invalid(request, before, what)


def over_budget(request: Request, name: str = "pdb") -> StatusError:
    """The answer to an eviction that a PodDisruptionBudget forbids."""
    cause = {
        "reason": "DisruptionBudget",
        "message": f"The disruption budget {name} needs 1 healthy pods and has 1 currently",
    }
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return refused(
        request,
        Refusal(code=429, reason="TooManyRequests", message=message, details={"causes": [cause]}),
    )


def many_budgets(request: Request) -> StatusError:
    """The answer to an eviction of a pod that several PodDisruptionBudgets select."""
    message = (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )
    return refused(request, Refusal(code=500, message=message))


def denied(request: Request, code: int, message: str) -> StatusError:
    """A webhook's refusal with the code that it has chosen."""
    denial = f'admission webhook "evictions.example.com" denied the request: {message}'
    return refused(request, Refusal(code=code, message=denial))
