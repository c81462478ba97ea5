"""Which pods that have failed come back, and when."""

from typing import Any

import msgspec
import pytest

from booking.controller.reclaimer.evictions.rejected_pod import (
    comeback_message,
    no_comeback_message,
    pause,
    verdict,
)
from cluster import names
from cluster.objects.failed_pods import FailedPod

LIMITS = {"limits": {names.GPU_RESOURCE: "1"}}
KILLED = [{"name": "c", "state": {"terminated": {"finishedAt": "2026-11-20T08:00:00Z"}}}]


def failed(
    reason: str | None = "UnexpectedAdmissionError",
    *,
    gpus: bool = True,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **metadata: Any,
) -> FailedPod:
    container = {"name": "c", "resources": LIMITS if gpus else {}}
    raw = {
        "metadata": {"name": "p", "uid": "p", **metadata},
        "spec": {"nodeName": "n0", "containers": [container], **(spec or {})},
        "status": {
            "phase": "Failed",
            "message": "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000",
            **({"reason": reason} if reason else {}),
            **(status or {}),
        },
    }
    return msgspec.convert(raw, FailedPod)


@pytest.mark.parametrize(
    "reason",
    [
        "UnexpectedAdmissionError",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "OutOfnvidia.com/gpu",
        "NodeAffinity",
        "TopologyAffinityError",
        "NodeShutdown",
    ],
)
def test_a_pod_that_another_node_or_a_later_try_could_accept_comes_back(reason: str) -> None:
    assert verdict(failed(reason)) == "comes back"
    assert verdict(failed(reason, spec={"restartPolicy": "Never"})) == "comes back"


@pytest.mark.parametrize("known_as", [names.BOOKED_CLASS, names.OPPORTUNISTIC_CLASS, None])
def test_a_pod_with_a_claim_comes_back_if_it_was_admitted_as_one_for_gpus(known_as: str | None) -> None:
    """Its claim has given the devices back by then."""
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}
    spec = claims | ({"priorityClassName": known_as} if known_as else {})
    assert verdict(failed(gpus=False, spec=spec)) == ("comes back" if known_as else "not ours")
    without = {"priorityClassName": known_as} if known_as else {}
    assert verdict(failed(gpus=False, spec=without)) == "not ours"


def test_a_pod_without_gpus_is_not_ours() -> None:
    assert verdict(failed(gpus=False)) == "not ours"


@pytest.mark.parametrize("policy", ["Always", "OnFailure", None])
def test_after_a_reboot_a_pod_that_may_start_again_comes_back(policy: str | None) -> None:
    spec = {"restartPolicy": policy} if policy else {}
    assert verdict(failed(spec=spec, status={"containerStatuses": KILLED})) == "comes back"


@pytest.mark.parametrize(
    "status",
    [
        {"containerStatuses": KILLED},
        {"containerStatuses": [{"name": "c", "state": {"running": {"startedAt": "2026-11-20T08:00:00Z"}}}]},
        {"containerStatuses": [{"name": "c", "state": {"waiting": {}}, "lastState": {"terminated": {}}}]},
        {"initContainerStatuses": KILLED},
    ],
)
def test_a_pod_that_may_run_only_once_and_has_started_is_not_run_again(status: dict[str, Any]) -> None:
    pod = failed(spec={"restartPolicy": "Never"}, status=status)
    assert verdict(pod) == "has run"
    assert no_comeback_message(pod).endswith("it is not run a second time.")


NOT_STARTED = {"exitCode": 128, "reason": "StartError", "startedAt": "1970-01-01T00:00:00Z"}
"""As kubelet 1.37 with containerd 2 reports a container whose start failed while containerd was restarted."""


def not_started(
    *, before: int = 0, state: dict[str, Any] | None = None, reason: str | None = None, **status: Any
) -> FailedPod:
    ended = {"terminated": {**NOT_STARTED, "message": "failed to start: context canceled.", **(state or {})}}
    return failed(
        reason,
        spec={"restartPolicy": "Never"},
        status={"message": None, "containerStatuses": [{"name": "c", "state": ended}], **status},
        annotations={names.KUBELET_REJECTIONS: str(before)},
    )


def test_a_pod_whose_containers_could_not_be_started_comes_back() -> None:
    pod = not_started(startTime="2026-11-20T08:00:00Z")
    assert verdict(pod) == "comes back"
    assert comeback_message(pod) == (
        "No container of this pod could be started on node n0: failed to start: context canceled."
        " It comes back with its place in the order, in 1 s."
    )


@pytest.mark.parametrize(
    "pod",
    [
        not_started(state={"startedAt": "2026-11-20T08:00:00Z"}),
        not_started(state={"startedAt": None}),
        not_started(initContainerStatuses=KILLED),
        not_started(containerStatuses=[{"name": "c", "state": {"waiting": {}}}]),
        not_started(reason="Evicted"),
        not_started(phase="Succeeded"),
        not_started(state={"message": 'unable to start container process: exec: "/x": no such file'}),
        not_started(state={"message": "executable file `/x` not found: No such file or directory"}),
    ],
    ids=["it ran", "start unknown", "an init container ran", "waits", "evicted", "done", "runc", "crun"],
)
def test_a_pod_that_may_have_run_or_failed_for_another_reason_does_not(pod: FailedPod) -> None:
    assert verdict(pod) == "not ours"


def test_a_pod_with_claims_of_its_own_class_comes_back_if_it_was_bound_for_gpus() -> None:
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "late"}]}
    assert verdict(failed(gpus=False, spec=claims)) == "not ours"
    assert verdict(failed(gpus=False, spec=claims, annotations={names.ASSIGNED: "{}"})) == "comes back"


def test_a_pod_that_can_never_be_started_stays_failed_in_the_end() -> None:
    assert verdict(not_started(before=9)) == "comes back"
    pod = not_started(before=10)
    assert verdict(pod) == "cannot start"
    assert "stays failed" in no_comeback_message(pod)


@pytest.mark.parametrize(
    ("before", "seconds"),
    [(None, 1), ("1", 2), ("2", 4), ("5", 32), ("6", 60), ("400", 60), ("-3", 1), ("many", 1), ("9" * 40, 1)],
)
def test_each_refusal_doubles_the_pause_up_to_a_minute(before: str | None, seconds: float) -> None:
    annotations = {names.KUBELET_REJECTIONS: before} if before else {}
    assert pause(failed(annotations=annotations)) == seconds


def test_the_pauses_of_a_pod_that_has_run_in_between_start_over() -> None:
    pod = failed(annotations={names.KUBELET_REJECTIONS: "5"}, status={"containerStatuses": KILLED})
    assert pause(pod) == 1


def test_the_owner_reads_the_kubelets_words() -> None:
    assert comeback_message(failed("OutOfcpu")) == (
        "The kubelet of node n0 rejected this pod: Pod was rejected: Node didn't have enough resource: cpu,"
        " requested: 4000. It comes back with its place in the order, in 1 s."
    )
