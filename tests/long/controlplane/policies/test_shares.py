"""Shares of GPUs on a real API server: our webhook and the policies know every spelling."""

from typing import Final

import pytest

from cluster import dialect_names, names
from tests.long.controlplane.policies.meddling import BETWEEN, meddled
from tests.long.controlplane.policies.policed import HOME, US, Json, People, a_pod, is_denied, pods

pytestmark = pytest.mark.controlplane

SHARES: Final = [
    {"limits": {names.SHARED_RESOURCE: "1", names.GPU_MEMORY: "8192"}},
    {"limits": {names.GPU_MEMORY: "8192"}},
    {"limits": {names.ALIYUN_MEMORY: "3"}},
    {dialect_names.KAI_FRACTION: "0.5"},
]
"""Resources, or annotations, by which a pod requests a share."""


@pytest.mark.parametrize("request_", SHARES, ids=str)
def test_a_share_is_the_same_in_everybodys_words(people: People, request_: Json) -> None:
    is_limit = "limits" in request_
    container = {"resources": request_} if is_limit else {}
    metadata: Json = {"generateName": "p-", "annotations": {} if is_limit else request_}
    pod = people.alice.create(pods(), a_pod(container=container, **metadata))
    assert pod.status == 201, pod
    resources = pod.body["spec"]["containers"][0]["resources"]
    assert resources["limits"] == resources["requests"]
    assert resources["limits"][names.SHARED_RESOURCE] == "1"
    assert pod.annotations[names.SHARING_MODE] == "time-slice", pod.annotations
    refused = people.alice.create(pods(), a_pod(container=container, spec={"hostIPC": True}, **metadata))
    assert (refused.status, "hostIPC" in refused.message) == (422, True), refused


@pytest.mark.usefixtures("meddler")
@pytest.mark.parametrize("request_", SHARES, ids=str)
def test_l7_shares_that_another_webhook_adds_after_ours_are_refused(people: People, request_: Json) -> None:
    change: Json = {"op": "add", "path": "/spec/containers/0/resources", "value": request_}
    if "limits" not in request_:
        ((key, value),) = request_.items()
        change = {"op": "add", "path": f"/metadata/annotations/{key}", "value": value}
    answer = people.alice.create(pods(), a_pod(**meddled([change])))
    assert is_denied(answer, "another webhook has added them"), answer
    pod = people.alice.create(pods(), a_pod(**meddled([change], BETWEEN)))
    limits = pod.body["spec"]["containers"][0]["resources"]["limits"]
    assert (limits[names.SHARED_RESOURCE], pod.annotations[names.ADMITTED]) == ("1", "true")


@pytest.mark.parametrize("namespace", [HOME, US])
def test_l7_only_our_controller_creates_pods_of_the_class_of_reservations(
    people: People, namespace: str
) -> None:
    pod = a_pod(spec={"priorityClassName": names.RESERVATION_CLASS})
    answer = people.administrator.create(pods(namespace), pod, dry=True)
    assert is_denied(answer, "Only GPU Booking creates pods of priority class", names.RESERVATION_CLASS)
