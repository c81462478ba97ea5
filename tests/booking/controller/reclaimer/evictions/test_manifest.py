"""What is sent again of a stored pod: every field that its user may set, and nothing that others wrote."""

from typing import Any, Final

import msgspec
import pytest

from booking.controller.reclaimer.evictions.manifest import (
    NOT_SENT,
    TOKEN_PATH,
    sent_annotations,
    sent_labels,
    sent_spec,
)
from booking.controller.reclaimer.evictions.replacement_pod import replacement_pod
from booking.controller.reclaimer.evictor import Back
from cluster import names
from cluster.kube.resources import WholePod
from tests.fakes.pod_spec_schema import Schema, stored_schema

Json = dict[str, Any]

SCHEMA: Final = stored_schema()
_USERS: Final = """
    activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy
    enableServiceLinks evictionResponders hostAliases hostIPC hostNetwork hostPID hostUsers hostname
    hostnameOverride imagePullSecrets initContainers nodeSelector os priorityClassName readinessGates
    resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates schedulingGroup
    securityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain
    terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes
"""
USERS: Final = frozenset(_USERS.split())
"""The fields of ``spec`` that a user may set."""


def test_every_field_of_the_api_server_is_known_as_its_users_or_as_somebody_elses() -> None:
    assert frozenset(SCHEMA["PodSpec"]) == USERS | NOT_SENT.keys()
    assert not USERS & NOT_SENT.keys()


def filled(kind: str, schema: Schema = SCHEMA, inside: tuple[str, ...] = ()) -> Any:
    """A value of this type in which every field is set; no type contains itself twice."""
    if kind.startswith("["):
        return [filled(kind[1:-1], schema, inside)]
    if kind.startswith("{"):
        return {"k": filled(kind[1:-1], schema, inside)}
    if kind in schema:
        fields = schema[kind].items()
        more = (*inside, kind)
        return {key: filled(of, schema, more) for key, of in fields if of.strip("[]{}") not in more}
    return {"integer": 1, "boolean": True}.get(kind, "x")


def whole(spec: Json, **metadata: Any) -> WholePod:
    meta = {"name": "p", "namespace": "team", "uid": "v", "creationTimestamp": "2026-11-20T08:00:00Z"}
    return msgspec.convert({"metadata": {**meta, **metadata}, "spec": spec}, WholePod)


@pytest.mark.parametrize("field", sorted(USERS))
@pytest.mark.parametrize("back", ["as-it-was", "without-gpu"])
def test_what_a_user_may_set_is_sent_again_down_to_its_last_field(field: str, back: Back) -> None:
    sent = {field: filled(SCHEMA["PodSpec"][field])}
    after = replacement_pod(whole(sent), back=back, reason="evicted")["spec"]
    for container in after.get(field, ()) if field in ("containers", "initContainers") else ():
        env = container["env"]
        container["env"] = [one for one in env if one["name"] != names.VISIBLE_DEVICES_VARIABLE]
    assert after == {"schedulerName": "default-scheduler", **sent}


@pytest.mark.parametrize("field", sorted(NOT_SENT))
def test_a_field_that_only_others_write_is_not_sent(field: str) -> None:
    assert sent(whole({field: filled(SCHEMA["PodSpec"][field]), "hostname": "h"})) == {"hostname": "h"}


def sent(pod: WholePod) -> Json:
    return sent_spec(pod.spec, pod.metadata)


# --- selectors ---------------------------------------------------------------------------------------------

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def a_term(*expressions: Json, **fields: Any) -> Json:
    selector: Json = {"matchLabels": {"app": "x"}}
    return {
        "labelSelector": selector | ({"matchExpressions": list(expressions)} if expressions else {}),
        **fields,
    }


def requirement(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


def in_all_places(term: Json) -> Json:
    terms = {REQUIRED: [term], PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}
    return {"topologySpreadConstraints": [term], "affinity": {"podAffinity": terms, "podAntiAffinity": terms}}


@pytest.mark.parametrize(
    ("keys", "own", "added"),
    [
        ({"matchLabelKeys": ["hash"]}, (), requirement("hash", "In", "1")),
        ({"matchLabelKeys": ["hash"]}, (), requirement("hash", "In", "the label's old value")),
        ({"matchLabelKeys": ["hash"]}, (requirement("tier", "In", "a"),), requirement("hash", "In", "1")),
        ({"mismatchLabelKeys": ["hash"]}, (), requirement("hash", "NotIn", "1")),
        (
            {"mismatchLabelKeys": ["hash"]},
            (requirement("hash", "NotIn", "2"),),
            requirement("hash", "NotIn", "1"),
        ),
    ],
    ids=["added", "the label has changed since", "beside the user's", "not in", "not in, beside the user's"],
)
def test_what_was_added_to_a_selector_from_label_keys_is_not_sent(
    keys: Json, own: tuple[Json, ...], added: Json
) -> None:
    stored = in_all_places(a_term(*own, added, **keys))
    assert sent(whole(stored, labels={"hash": "1"})) == in_all_places(a_term(*own, **keys))


@pytest.mark.parametrize(
    ("keys", "labels"),
    [({"matchLabelKeys": ["hash"]}, {}), ({"matchLabelKeys": ["other"]}, {"hash": "1"}), ({}, {"hash": "1"})],
    ids=["the pod has no such label", "another key", "no keys"],
)
def test_a_users_own_requirement_is_sent(keys: Json, labels: dict[str, str]) -> None:
    stored = in_all_places(a_term(requirement("hash", "In", "1"), **keys))
    assert sent(whole(stored, labels=labels)) == stored


def test_a_selector_that_is_empty_without_the_addition_stays_a_selector() -> None:
    term = {
        "labelSelector": {"matchExpressions": [requirement("hash", "In", "1")]},
        "matchLabelKeys": ["hash"],
    }
    stored = whole({"topologySpreadConstraints": [term]}, labels={"hash": "1"})
    assert sent(stored)["topologySpreadConstraints"] == [{"labelSelector": {}, "matchLabelKeys": ["hash"]}]


# --- amounts that a LimitRange has filled in ---------------------------------------------------------------

RECORD: Final = {
    names.LIMIT_RANGER: "LimitRanger plugin set: cpu, nvidia.com/gpu request for container main; "
    "nvidia.com/gpu limit for container main; memory limit for init container main"
}
FULL: Final = {
    "limits": {names.GPU_RESOURCE: "2", "memory": "1Gi"},
    "requests": {names.GPU_RESOURCE: "2", "cpu": "1", "memory": "1Gi"},
}


@pytest.mark.parametrize(
    ("resized", "own"),
    [
        (False, {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}}),
        (True, {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}),
    ],
    ids=["as it was created", "resized since"],
)
def test_amounts_of_a_limit_range_are_not_sent_unless_they_may_be_a_resizes(
    own: Json, *, resized: bool
) -> None:
    writers = [{"manager": "kubelet", "subresource": "status"}]
    writers += [{"manager": "kubectl", "subresource": "resize"}] if resized else []
    main = {"name": "main", "resources": FULL}
    pod = whole({"containers": [main]}, annotations={**RECORD, "mine": "x"}, managedFields=writers)
    assert sent(pod) == {"containers": [{"name": "main", "resources": own}]}
    assert sent_annotations(pod.metadata) == {"mine": "x"}


def test_an_init_container_of_the_same_name_is_another_container() -> None:
    setup = {"name": "main", "resources": FULL}
    pod = whole({"initContainers": [setup]}, annotations=RECORD)
    limits = {names.GPU_RESOURCE: "2"}
    assert sent(pod)["initContainers"][0]["resources"] == {**FULL, "limits": limits}


# --- the rest ----------------------------------------------------------------------------------------------


def test_labels_that_the_binding_copied_from_the_node_are_not_sent() -> None:
    labels = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "app": "x"}
    assert sent_labels(whole({}, labels=labels).metadata) == {"app": "x"}


@pytest.mark.parametrize(
    ("name", "path"), [("kube-api-access-mine", TOKEN_PATH), ("kube-api-access-bcdfg", "/t")]
)
def test_a_users_own_volume_with_a_token_is_sent(name: str, path: str) -> None:
    container = {"name": "main", "volumeMounts": [{"name": name, "mountPath": path}]}
    spec = {"containers": [container], "volumes": [{"name": name, "projected": {}}]}
    assert sent(whole(spec)) == spec


def test_a_pod_that_admission_has_never_seen_keeps_its_scheduler_and_its_class() -> None:
    spec = {"schedulerName": "mine", "priorityClassName": "batch"}
    after = replacement_pod(whole(spec), back="without-gpu", reason="evicted")["spec"]
    assert after == spec
