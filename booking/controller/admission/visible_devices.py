"""Pods without a GPU see none: what a policy of the API server writes from Kubernetes 1.36 on, before that.

Asked for namespaces with the label ``names.NO_VISIBLE_DEVICES`` alone. It needs nothing but the pod, so it
answers before the cluster has been read, too.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from booking.controller.admission.admission_review import Request
from booking.controller.admission.patch import patch
from booking.controller.admission.pod_reader import Json, asks_for_gpus, read
from booking.controller.admission.review import Outcome
from booking.controller.admission.webhook import BadRequestError
from cluster import names

_HIDING: Final = frozenset({"void", "none"})
_VOID: Final = {"name": names.VISIBLE_DEVICES_VARIABLE, "value": "void"}
_EPHEMERAL: Final = "ephemeralcontainers"


def unseeing(pod: Json, old: Json | None) -> Json:
    """The pod whose containers without a GPU have ``NVIDIA_VISIBLE_DEVICES=void``.

    A variable that comes from elsewhere (``valueFrom``) is left: the policy refuses the pod, with a message.

    Args:
        pod: as it is to be stored.
        old: the stored pod, which gets ephemeral containers; None: the pod is new. Those of a pod with GPUs
            see none either: they cannot ask for one.
    """
    spec = pod["spec"]
    if old is None:
        groups = {group: spec[group] for group in ("containers", "initContainers") if spec.get(group)}
        return {**pod, "spec": {**spec, **{name: _hidden(group, ()) for name, group in groups.items()}}}
    before = [one["name"] for one in old["spec"].get("ephemeralContainers") or ()]
    group = _hidden(spec.get("ephemeralContainers") or (), before)
    return {**pod, "spec": {**spec, "ephemeralContainers": group}}


def _hidden(containers: Sequence[Json], unchanged: Sequence[str]) -> list[Json]:
    return [one if one["name"] in unchanged else _without_sight(one) for one in containers]


def _without_sight(container: Json) -> Json:
    env: list[Json] = container.get("env") or []
    own = [one for one in env if one.get("name") == names.VISIBLE_DEVICES_VARIABLE]
    if any(one.get("valueFrom") for one in own) or (own and own[-1].get("value") in _HIDING):
        return container
    # In its place: variables after it may refer to it.
    replaced = [_VOID if one in own else one for one in env]
    return {**container, "env": replaced if own else [*env, _VOID]}


def hide_devices(request: Request) -> Outcome:
    """What becomes of a pod, by a request to create it or to add ephemeral containers.

    Raises:
        BadRequestError: it cannot be read.
    """
    pod = _pod_in(request.object)
    if request.sub_resource == _EPHEMERAL:
        changed = unseeing(pod, _pod_in(request.old_object))
    elif request.is_new_pod and not asks_for_gpus(read(pod)):
        changed = unseeing(pod, None)
    else:
        return Outcome(kind="untouched")
    steps = patch(pod, changed)
    return Outcome(kind="hidden" if steps else "untouched", patch=steps)


def _pod_in(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        pod = msgspec.json.decode(raw, type=dict[str, Any])
        read(pod)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(f"The object of the AdmissionReview is not a pod: {error}.") from error
    return pod
