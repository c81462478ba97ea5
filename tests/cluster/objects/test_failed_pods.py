"""Whether a pod that has failed has ever run, and what a kubelet's rejection says."""

import msgspec
import pytest

from cluster.objects.failed_pods import FailedPod
from cluster.objects.kubelet_rejection import blames_node, is_rejected_by_kubelet
from cluster.objects.pods import Pod, PodStatus

RAN = {"state": {"terminated": {}}}
WAITED = {"state": {"waiting": {"reason": "ContainerCreating"}}}
LOST = {"state": {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}}, "lastState": {}}
"""A kubelet that was killed between admission and the sandbox rejects the pod, and knows of no container."""
AGAIN = {**WAITED, "lastState": {"terminated": {}}}


def failed(status: dict[str, object], *writers: dict[str, str]) -> FailedPod:
    return msgspec.convert({"metadata": {"managedFields": list(writers)}, "status": status}, FailedPod)


@pytest.mark.parametrize(
    ("status", "begun"),
    [
        ({}, False),
        ({"containerStatuses": None, "initContainerStatuses": None}, False),
        ({"containerStatuses": [{}]}, False),
        ({"containerStatuses": [WAITED]}, False),
        ({"containerStatuses": [WAITED, RAN]}, True),
        ({"containerStatuses": [{"state": {"running": {}}}]}, True),
        ({"containerStatuses": [AGAIN]}, True),
        ({"containerStatuses": [LOST]}, False),
        ({"containerStatuses": [LOST], "initContainerStatuses": [RAN]}, True),
        ({"containerStatuses": [{**LOST, "lastState": LOST["state"]}]}, True),
        ({"initContainerStatuses": [RAN], "containerStatuses": [WAITED]}, True),
    ],
)
def test_a_pod_has_begun_when_any_container_has_run(status: dict[str, object], *, begun: bool) -> None:
    assert failed(status).has_begun is begun


@pytest.mark.parametrize(
    ("manager", "subresource", "time", "begun"),
    [
        ("kubelet", "status", "09:00:15", False),
        ("kubelet", "status", "09:00:16", True),
        ("kubelet", "", "09:00:16", False),
        ("kube-controller-manager", "status", "09:00:16", False),
        ("kubelet", "status", "08:00:00", False),
    ],
)
def test_a_pod_that_the_kubelet_accepted_long_before_may_have_run(
    manager: str, subresource: str, time: str, *, begun: bool
) -> None:
    writer = {"manager": manager, "subresource": subresource, "time": f"2026-11-23T{time}Z"}
    first = {"manager": "kubelet", "subresource": "status", "time": "2026-11-23T09:00:00Z"}
    assert failed({"startTime": "2026-11-23T09:00:00Z"}, writer).has_begun is begun
    assert failed({"startTime": "2026-11-23T09:00:00Z"}, first, writer, first).has_begun is begun
    assert not failed({}, writer).has_begun


@pytest.mark.parametrize(
    ("phase", "reason", "rejected", "blamed"),
    [
        ("Failed", "UnexpectedAdmissionError", True, True),
        ("Failed", "OutOfcpu", True, True),
        ("Failed", "OutOfnvidia.com/gpu", True, True),
        ("Failed", "NodeShutdown", True, True),
        ("Failed", "TopologyAffinityError", True, False),
        ("Failed", "NodeAffinity", True, False),
        ("Failed", "SysctlForbidden", False, False),
        ("Failed", "Evicted", False, False),
        ("Failed", None, False, False),
        ("Pending", "OutOfcpu", False, False),
        ("Running", "UnexpectedAdmissionError", False, False),
    ],
)
def test_a_rejection_is_recognised_by_phase_and_reason(
    phase: str, reason: str | None, *, rejected: bool, blamed: bool
) -> None:
    pod = Pod(status=PodStatus(phase=phase, reason=reason))
    assert (is_rejected_by_kubelet(pod), blames_node(pod)) == (rejected, blamed)
