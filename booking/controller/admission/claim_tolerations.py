"""Each new ResourceClaim tolerates the devices that are kept for it, and nobody else's (law L7).

The toleration has a value that only this claim has: of a claim that Kubernetes has made from a template, the
uid of its pod; of another, its namespace and name. What a user writes for such devices is removed: a
toleration of our key, or of every key. A claim's ``spec`` never changes, so this is decided once. It needs
nothing but the claim, so it is answered before the cluster has been read, too.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from booking.controller.admission.admission_review import Request
from booking.controller.admission.patch import Operation
from booking.controller.admission.review import Outcome
from booking.controller.admission.webhook import BadRequestError
from cluster import names

Json = Mapping[str, Any]

MAKERS: Final = frozenset(
    {"system:serviceaccount:kube-system:resource-claim-controller", "system:kube-controller-manager"}
)
"""Who makes claims from templates: only of theirs the owner is believed."""
LONGEST: Final = 63
"""Characters of a taint's value."""


def tolerating(claim: Json, *, creator: str, namespace: str, request: str) -> dict[str, Any]:
    """The ``spec`` of a claim whose requests tolerate what is kept for it, and no held device else.

    Args:
        claim: as it is to be stored.
        creator: the user who creates it.
        namespace: where.
        request: the uid of the request, which no other has.
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
        changed["exactly"] = _way(request["exactly"], value)
    if request.get("firstAvailable"):
        changed["firstAvailable"] = [_way(one, value) for one in request["firstAvailable"]]
    return changed


def _way(way: Json, value: str) -> dict[str, Any]:
    """The way with our toleration as the last one, and without those that would tolerate any held device."""
    kept = [one for one in way.get("tolerations") or () if not _tolerates_held(one)]
    ours = {"key": names.HELD_TAINT, "operator": "Equal", "value": value, "effect": "NoSchedule"}
    return {**way, "tolerations": [*kept, ours]}


def _tolerates_held(toleration: Json) -> bool:
    key = toleration.get("key") or ""
    return not key or names.is_ours(key)


def mark_claim(request: Request) -> Outcome:
    """What becomes of a claim.

    Raises:
        BadRequestError: it cannot be read.
    """
    if request.operation != "CREATE" or request.sub_resource:
        return Outcome(kind="untouched")
    try:
        claim = msgspec.json.decode(request.object, type=dict[str, Any])
        creator, namespace = request.user_info.username, request.namespace
        spec = tolerating(claim, creator=creator, namespace=namespace, request=request.uid)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, KeyError) as error:
        raise BadRequestError(f"The object of the AdmissionReview is not a claim: {error}.") from error
    return Outcome(kind="kept-apart", patch=(Operation(op="replace", path="/spec", value=spec),))
