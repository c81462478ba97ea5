"""Each new ResourceClaim tolerates the devices that are kept for it, and nobody else's (law L7).

The toleration has a value that only this claim has: of a claim that Kubernetes has made from a template, the
uid of its pod; of another, its namespace and name. What a user writes for such devices is removed: a
toleration of our key, or of every key; and one of unhealthy devices, which the node agent gives to
administrators' access alone. A claim's ``spec`` never changes, so this is decided once. It needs nothing but
the claim, so it is answered before the cluster has been read, too.

A claim that the node agent would refuse for its configuration is not created, but for one that is made from a
template: its pod waits, and is told why, as where the configuration is its DeviceClass's.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from booking.controller.admission.admission_review import Request
from booking.controller.admission.patch import Operation
from booking.controller.admission.review import Outcome
from booking.controller.admission.webhook import BadRequestError
from cluster import claim_names, names
from cluster.decide.claims.configuration import refusal_of_claim
from cluster.objects.claims import RequestedDevices

Json = Mapping[str, Any]

MAKERS: Final = frozenset(
    {"system:serviceaccount:kube-system:resource-claim-controller", "system:kube-controller-manager"}
)
"""Who makes claims from templates: only of theirs the owner is believed."""
LONGEST: Final = 63
"""Characters of a taint's value."""
MOST: Final = 16
"""Tolerations of a request, or of an alternative (``DeviceTolerationsMaxLength``, resource/v1)."""


class ClaimRefusedError(Exception):
    """The claim is not created; the text says why."""


def tolerating(claim: Json, *, creator: str, namespace: str, request: str) -> dict[str, Any]:
    """The ``spec`` of a claim whose requests tolerate what is kept for it, and no held device else.

    Args:
        claim: as it is to be stored.
        creator: the user who creates it.
        namespace: where.
        request: the uid of the request, which no other has.

    Raises:
        ClaimRefusedError: there is no room for the toleration.
    """
    value = _value(claim["metadata"], creator=creator, namespace=namespace) or _short(request)
    spec = dict(claim.get("spec") or {})
    devices = dict(spec.get("devices") or {})
    devices["requests"] = [_request(one, value) for one in devices.get("requests") or ()]
    return {**spec, "devices": devices}


def _value(meta: Json, *, creator: str, namespace: str) -> str | None:
    owners = [one for one in meta.get("ownerReferences") or () if one.get("controller")]
    if creator in MAKERS and owners and owners[0].get("kind") == "Pod":
        return str(owners[0]["uid"])
    if not meta.get("name"):
        return None  # the API server makes one up, later
    name = f"{namespace}.{meta['name']}"
    return name if len(name) <= LONGEST else _short(name)


def _short(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:LONGEST]


def _request(request: Json, value: str) -> dict[str, Any]:
    changed = dict(request)
    if request.get("exactly"):
        changed["exactly"] = _way(request["exactly"], value, request.get("name"))
    if request.get("firstAvailable"):
        changed["firstAvailable"] = [
            _way(one, value, f"{request.get('name')}/{one.get('name')}") for one in request["firstAvailable"]
        ]
    return changed


def _way(way: Json, value: str, name: str | None) -> dict[str, Any]:
    """The way with our toleration as the last one, and without those that users may not have."""
    is_admin = bool(way.get("adminAccess"))
    kept = [one for one in way.get("tolerations") or () if not _is_removed(one, is_admin=is_admin)]
    if len(kept) >= MOST:
        raise ClaimRefusedError(
            f"The request {name} has {len(kept)} tolerations. Kubernetes stores {MOST}, and GPU Booking"
            f" adds one: it can have {MOST - 1} of its own."
        )
    ours = {"key": names.HELD_TAINT, "operator": "Equal", "value": value, "effect": "NoSchedule"}
    return {**way, "tolerations": [*kept, ours]}


def _is_removed(toleration: Json, *, is_admin: bool) -> bool:
    key = toleration.get("key") or ""
    return not key or names.is_ours(key) or (key == claim_names.UNHEALTHY_TAINT and not is_admin)


def _refusal(spec: Json, creator: str, driver: str) -> str | None:
    """Why the claim is not created for what it configures; None if it is."""
    if creator in MAKERS or not spec["devices"].get("config"):
        return None
    refusal = refusal_of_claim(msgspec.convert(spec["devices"], RequestedDevices), driver)
    return f"{refusal}: no pod with this claim would start." if refusal else None


def mark_claim(request: Request, driver: str = names.DRA_DRIVER) -> Outcome:
    """What becomes of a claim.

    Args:
        request: to create it.
        driver: ours.

    Raises:
        BadRequestError: it cannot be read.
    """
    if request.operation != "CREATE" or request.sub_resource:
        return Outcome(kind="untouched")
    try:
        claim = msgspec.json.decode(request.object, type=dict[str, Any])
        creator, namespace = request.user_info.username, request.namespace
        spec = tolerating(claim, creator=creator, namespace=namespace, request=request.uid)
        refusal = _refusal(spec, creator, driver)
    except ClaimRefusedError as error:
        refusal, spec = str(error), {}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, KeyError) as error:
        raise BadRequestError(f"The object of the AdmissionReview is not a claim: {error}.") from error
    if refusal:
        return Outcome(kind="refused", refused=refusal)
    return Outcome(kind="kept-apart", patch=(Operation(op="replace", path="/spec", value=spec),))
