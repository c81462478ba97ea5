"""What is played on every version: laws on kubelets, restarts, refused pods, and pods that see no GPU."""

import json
from collections.abc import Mapping
from contextlib import suppress

from cluster import names
from devcluster import probe
from devcluster.demo.pod_status import is_running
from devcluster.errors import ClusterError
from tests.clusters import own
from tests.e2e.attached import Attached
from tests.e2e.playground import HOSTNAME, Playground
from tests.e2e.session import DESIGN
from tests.e2e.story_run import check_story, run
from tests.e2e.test_laws_on_kubelets import (
    test_l1_a_burst_of_sixteen_pods_fills_eight_devices_and_no_pod_fails,
    test_l3_l4_two_booked_pods_at_once_take_one_victim_each_and_no_more,
    test_l4_a_released_booking_ends_its_pods_and_leaves_later_ones_alone,
    test_l7_forged_cover_annotations_are_overwritten_at_creation,
)
from tests.e2e.testbed import Design
from tests.long.test_refused_pods import (
    NODE,
    test_a_pod_bound_by_hand_to_a_full_node_waits_and_runs_when_there_is_room,
    test_after_a_reboot_with_a_late_agent_pods_come_back_and_run,
    without_power,
)
from tests.long.test_restarts import (
    test_a_restarted_extender_knows_the_earlier_assignments,
    test_pods_of_a_kubelet_that_goes_down_and_comes_back_run_with_the_assigned_devices,
    test_running_pods_outlive_a_killed_agent_and_a_new_one_serves_new_pods,
)

__all__ = [
    "test_a_pod_bound_by_hand_to_a_full_node_waits_and_runs_when_there_is_room",
    "test_a_pod_without_a_gpu_sees_none_where_an_administrator_wants_that",
    "test_a_restarted_extender_knows_the_earlier_assignments",
    "test_after_a_reboot_with_a_late_agent_pods_come_back_and_run",
    "test_l1_a_burst_of_sixteen_pods_fills_eight_devices_and_no_pod_fails",
    "test_l3_l4_two_booked_pods_at_once_take_one_victim_each_and_no_more",
    "test_l4_a_released_booking_ends_its_pods_and_leaves_later_ones_alone",
    "test_l7_forged_cover_annotations_are_overwritten_at_creation",
    "test_pods_of_a_kubelet_that_goes_down_and_comes_back_run_with_the_assigned_devices",
    "test_pods_that_come_right_after_one_that_the_kubelet_rejects_get_their_own_devices",
    "test_running_pods_outlive_a_killed_agent_and_a_new_one_serves_new_pods",
    "without_power",
]


def on(
    name: str, *, kubernetes: str = "", emulates: str = "", kubelets: Mapping[str, str] | None = None
) -> Design:
    """The usual testbed, on another version."""
    usual = {key: getattr(DESIGN, key) for key in ("server", "controller", "resources")}
    return Design(name=name, kubernetes=kubernetes, emulates=emulates, kubelets=kubelets or {}, **usual)


def play_story(how: str, minor: str) -> None:
    """Helm installs the chart, and its pods play the story, on a version (``kubernetes``, ``emulates``)."""
    name = own(f"story-{how[0]}{minor.replace('.', '')}")
    with Attached(name):
        played = run(name, f"--{how}", minor)
    check_story(played)
    assert "the chart is installed, and all of its pods are ready" in played.stdout


def test_pods_that_come_right_after_one_that_the_kubelet_rejects_get_their_own_devices(
    playground: Playground,
) -> None:
    """Kubelets before 1.34 go on listing it, and their word of the rejection may come late.

    An API server that does not see yet that the pod is on that node refuses it, and the kubelet tries again
    seconds later. A pod that cannot be told from it meanwhile is refused, too, and comes back.
    """
    forbidden = {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}}
    here = {"nodeSelector": {HOSTNAME: NODE}, "restartPolicy": "Never"}
    bodies = [probe.pod("rejected", [probe.container("main", gpus=1)], extra=here | forbidden)]
    bodies += [probe.pod(f"equal-{n}", [probe.container("main", gpus=1)], extra=here) for n in range(3)]
    equal = set(playground.create_all(bodies)) - {"rejected"}
    playground.await_event("rejected", "forbidden sysctl")
    playground.await_that(
        "the others run",
        lambda: equal <= {pod.metadata.name for pod in playground.pods() if is_running(pod)} or None,
    )
    for name in sorted(equal):
        playground.check_agreement(name)
    playground.check_law_1()


def test_a_pod_without_a_gpu_sees_none_where_an_administrator_wants_that(playground: Playground) -> None:
    label = f"{names.NO_VISIBLE_DEVICES}=true"
    playground.kubectl("label", "namespace", playground.namespace, label)

    where = ("--namespace", playground.namespace, "--dry-run=server", "--output=json", "--filename=-")
    body = json.dumps(probe.pod("blind", [probe.container("main")]))

    def env() -> object:
        with suppress(ClusterError):  # the label is not known everywhere at once
            return json.loads(playground.kubectl("create", *where, given=body))["spec"]["containers"][0].get(
                "env"
            )
        return None

    void = [{"name": names.VISIBLE_DEVICES_VARIABLE, "value": "void"}]
    playground.await_that("the variable is written", lambda: env() == void or None)
