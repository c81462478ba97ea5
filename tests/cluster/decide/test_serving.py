"""Whether a node serves: after a rejection, a renewal, missed events, and when a pod runs on it."""

from datetime import datetime, timedelta

import msgspec
import pytest

from cluster import names
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.ledger.view import view_of
from cluster.decide.serving import (
    LONGEST_PAUSE,
    MISSED_AFTER,
    KubeletRejection,
    Serving,
    awaits_answer,
    is_short,
)
from cluster.objects.meta import Meta
from cluster.objects.pods import Pod
from tests.extender.cluster import Cluster
from tests.fakes.objects import EPOCH, PodBuilder, a100, a_lease, a_node, a_pod

GIVEN = {"main": ("GPU-n0-0",)}


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


class Node:
    """One node, as its agent and its kubelet report it; times are seconds since a start."""

    def __init__(self, window: int = 1) -> None:
        self.serving = Serving(window)
        self.versions = 0

    def renews(self, seconds: float, *, seen: float | None = None, stopping: bool = False) -> None:
        """Its agent renews its Lease, which is seen then or later."""
        self.versions += 1
        lease = a_lease("n0", renewed=at(seconds), version=self.versions, stopping=stopping)
        seen = seconds if seen is None else seen
        self.serving.apply_lease(lease, monotonic=seen, now=at(seen))

    def says(
        self, pod: Pod, seconds: float, *, started: float | None = None, was_known: bool = True
    ) -> KubeletRejection | None:
        """Its kubelet reports a pod that was admitted then; by default within the last second."""
        since = seconds // 1 if started is None else started
        status = msgspec.structs.replace(pod.status, start_time=at(since))
        return self.serving.apply_pod(
            msgspec.structs.replace(pod, status=status),
            was_known=was_known,
            monotonic=seconds,
            now=at(seconds),
        )

    def rejects(self, seconds: float, uid: str = "p", **more: bool) -> KubeletRejection | None:
        """Its kubelet rejects a pod."""
        return self.says(rejected(a_pod(uid).asks(1).on("n0", GIVEN)), seconds, **more)

    def runs(self, seconds: float, started: float) -> None:
        """A pod runs."""
        self.says(a_pod("r").asks(1).on("n0", GIVEN).ended("Running").obj, seconds, started=started)

    def state(self, seconds: float) -> AgentState:
        """The state of the node."""
        return self.serving.state("n0", monotonic=seconds)


def rejected(builder: PodBuilder, reason: str = "UnexpectedAdmissionError") -> Pod:
    pod = builder.ended("Failed").obj
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, reason=reason))


@pytest.fixture
def node() -> Node:
    made = Node()
    made.renews(0)
    return made


def test_a_refusal_bars_the_node_until_its_agent_renews_and_the_pause_is_over(node: Node) -> None:
    node.rejects(5.5)
    assert node.state(5.5) == node.state(60) == "kubelet-rejecting"
    node.renews(10)
    assert node.state(10) == "alive"


def test_a_renewal_that_was_written_before_the_refusal_does_not_lift_it(node: Node) -> None:
    node.rejects(5.5)
    node.renews(5.4, seen=7)
    assert node.state(7) == "kubelet-rejecting"


def test_a_renewal_of_the_same_second_may_have_been_written_before(node: Node) -> None:
    node.rejects(5.1)
    node.renews(5.9, seen=8)
    assert node.state(8) == "kubelet-rejecting"
    node.renews(6, seen=8)
    assert node.state(8) == "alive"


def test_the_pause_doubles_with_each_further_refusal_up_to_a_minute(node: Node) -> None:
    now, pauses = 10.0, []
    for number in range(9):
        rejection = node.rejects(now, f"p{number}")
        assert rejection is not None
        node.renews(now + 2, seen=now + 0.001)
        pauses.append(rejection.pause)
        assert node.state(now + rejection.pause - 0.01) == "kubelet-rejecting"
        now += rejection.pause + 3
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_kubelet_that_refuses_for_days_is_tried_again_every_minute() -> None:
    assert KubeletRejection(a_pod().obj, at=0.0, number=100_000).pause == LONGEST_PAUSE


def test_the_pause_starts_at_one_second_again_after_a_pod_runs(node: Node) -> None:
    for number in range(4):
        node.rejects(number, f"p{number}")
    node.runs(20, started=19)
    assert node.state(20) == "alive"
    rejection = node.rejects(30, "q")
    assert rejection is not None
    assert rejection.pause == 1


def test_a_running_pod_that_was_admitted_before_the_refusal_does_not_lift_it(node: Node) -> None:
    node.rejects(5.5)
    node.runs(6, started=5)
    assert node.state(6) == "kubelet-rejecting"
    node.runs(7, started=6)
    assert node.state(7) == "alive"


def test_a_refusal_that_is_seen_after_a_later_pod_runs_is_ignored(node: Node) -> None:
    node.runs(9, started=8)
    assert node.says(rejected(a_pod().asks(1).on("n0", GIVEN)), 9, started=5) is None
    assert node.state(9) == "alive"


def test_a_refusal_counts_once_however_often_the_pod_is_seen(node: Node) -> None:
    assert node.rejects(5) is not None
    assert node.rejects(6) is None
    node.renews(10)
    assert node.state(10) == "alive"


@pytest.mark.parametrize("reason", ["TopologyAffinityError", "NodeAffinity", "SysctlForbidden", "Evicted"])
def test_a_fault_of_the_pod_bars_no_node(node: Node, reason: str) -> None:
    node.says(rejected(a_pod().asks(1).on("n0", GIVEN), reason), 5)
    assert node.state(5) == "alive"


@pytest.mark.parametrize("reason", ["UnexpectedAdmissionError", f"OutOf{names.GPU_RESOURCE}", "NodeShutdown"])
def test_a_shortage_of_the_node_bars_it(node: Node, reason: str) -> None:
    node.says(rejected(a_pod().asks(1).on("n0", GIVEN), reason), 5)
    assert node.state(5) == "kubelet-rejecting"


def test_l7_a_refused_pod_that_somebody_else_bound_does_not_bar_the_node(node: Node) -> None:
    node.says(rejected(a_pod().asks(1).on("n0")), 5)
    assert node.state(5) == "alive"


def test_l9_a_process_that_starts_knows_of_a_refusal_written_on_a_pod() -> None:
    fresh = Node()
    fresh.renews(0, seen=6)
    fresh.says(rejected(a_pod().asks(1).on("n0", GIVEN)), 6, started=5, was_known=False)
    assert fresh.state(6) == "kubelet-rejecting"
    fresh.renews(10)
    assert fresh.state(10) == "alive"


def test_a_pod_that_was_refused_long_ago_does_not_bar_the_node(node: Node) -> None:
    now = 2 * LONGEST_PAUSE
    node.renews(now)
    assert node.says(rejected(a_pod().asks(1).on("n0", GIVEN)), now, started=1, was_known=False) is None
    assert node.state(now) == "alive"


def test_after_missed_events_a_node_serves_once_its_lease_is_renewed(node: Node) -> None:
    node.serving.require_renewal_after(8)
    assert node.state(8) == "unconfirmed"
    node.renews(10)
    assert node.state(10) == "alive"


def test_a_renewal_that_was_queued_meanwhile_does_not_confirm_the_node(node: Node) -> None:
    node.renews(10)
    node.serving.require_renewal_after(50)
    node.renews(20, seen=51)
    assert node.state(51) == "unconfirmed"
    node.renews(52)
    assert node.state(52) == "alive"


def test_when_no_lease_at_all_was_renewed_events_may_have_been_missed(node: Node) -> None:
    other = a_lease("n1", renewed=at(MISSED_AFTER + 1))
    node.serving.apply_lease(other, monotonic=MISSED_AFTER + 1, now=at(MISSED_AFTER + 1))
    assert node.state(MISSED_AFTER + 1) == "unconfirmed"
    assert node.serving.state("n1", monotonic=MISSED_AFTER + 1) == "alive"


def test_each_watch_of_leases_misses_renewals_of_its_own(node: Node) -> None:
    """The kubelets' is another: its lists and events say nothing of the agents', nor the other way round."""
    kubelet = msgspec.structs.replace(
        a_lease("n0", renewed=at(0)), metadata=Meta(name="n0", namespace=names.KUBELET_LEASES, uid="k")
    )
    node.serving.expect_list(monotonic=0, of_kubelet=True)
    node.serving.apply_lease(kubelet, monotonic=0, now=at(0))
    node.renews(5)
    node.serving.expect_list(monotonic=6, of_kubelet=True)
    assert node.state(6) == "alive"
    renewed = msgspec.structs.replace(kubelet.spec, renew_time=at(16))
    node.serving.apply_lease(msgspec.structs.replace(kubelet, spec=renewed), monotonic=16, now=at(16))
    other = a_lease("n1", renewed=at(30))
    node.serving.apply_lease(other, monotonic=30, now=at(30))
    assert node.state(30) == "unconfirmed"
    node.serving.count_kubelet("n0", counts=True)
    assert node.state(30) == "alive"


@pytest.mark.parametrize("first", ["stopping", "rejected"])
def test_an_agent_that_stops_counts_as_stopping_whatever_its_kubelet_did(node: Node, first: str) -> None:
    if first == "rejected":
        node.rejects(5)
    node.renews(6, stopping=True)
    if first == "stopping":
        node.rejects(7)
    assert node.state(8) == "stopping"


def test_the_state_of_a_node_changes_by_time_alone_at_the_end_of_the_pause(node: Node) -> None:
    node.rejects(5)
    node.renews(6, seen=5.5)
    assert node.serving.due("n0", monotonic=5.6) == 6
    assert node.serving.due("n0", monotonic=6) == 80.5


def test_a_kubelet_owes_an_answer_for_a_pod_to_which_we_assigned_devices() -> None:
    bound = a_pod().asks(1).on("n0", GIVEN)
    assert awaits_answer(bound.obj)
    assert not awaits_answer(a_pod().asks(1).on("n0").obj)
    assert not awaits_answer(a_pod().asks(1).obj)
    assert not awaits_answer(bound.terminating().obj)
    assert not awaits_answer(bound.ended("Running").obj)


@pytest.mark.parametrize(
    ("allocatable", "is_whole"),
    [({names.GPU_RESOURCE: "2"}, True), ({names.GPU_RESOURCE: "1"}, False), ({}, False)],
)
def test_a_node_whose_kubelet_advertises_fewer_devices_than_its_agent_gets_no_pod(
    allocatable: dict[str, str], *, is_whole: bool
) -> None:
    cluster = Cluster()
    cluster.add_node("n0", a100(0), a100(1))
    node = a_node("n0", a100(0), a100(1), version=100)
    cluster.nodes.upsert(
        msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, allocatable=allocatable))
    )
    found = cluster.ask(cluster.create(a_pod().asks(1)))
    assert (found.node_names == ["n0"]) == is_whole
    if not is_whole:
        assert "[kubelet-short]" in found.failed_and_unresolvable_nodes["n0"]


def test_a_kubelet_is_not_short_of_devices_that_claims_give() -> None:
    device = msgspec.structs.replace(a100(0), resource=names.CLAIM_RESOURCE, claimed_as="gpu-0")
    view = view_of("n0", devices=(device,), fault=None, holdings=(), on_hold={})
    assert not is_short(view, a_node("n0", device), {})
