import pytest

from cluster.decide.ledger import WHOLE
from cluster.kube.errors import Request, Unreachable
from cluster.kube.resources import PODS
from extender.binding.assumed_binds import ASK_AFTER
from tests.extender.cluster import Cluster
from tests.fakes.objects import a_pod

HELD = {"GPU-n0-0": WHOLE}


@pytest.fixture
def cluster() -> Cluster:
    """A cluster with a pod whose bind got no answer."""
    made = Cluster()
    made.add_node("n0")
    pod = made.create(a_pod().asks(1))
    made.ask(pod)
    made.kube.fail("POST", Unreachable(Request("POST", "/binding"), "timed out"))
    made.bind_to(pod)
    made.assumed_binds.reconcile()
    return made


def later(cluster: Cluster, seconds: float) -> None:
    cluster.clock.advance(seconds)
    cluster.assumed_binds.reconcile()


def test_a_recent_bind_is_not_checked(cluster: Cluster) -> None:
    calls_before = len(cluster.kube.calls)

    later(cluster, ASK_AFTER - 1)

    assert len(cluster.kube.calls) == calls_before


def note_failure(cluster: Cluster) -> None:
    """As the scheduler does after a failed bind."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError"}
    body = {"status": {"conditions": [condition]}}
    cluster.kube.patch(PODS, "p", body, namespace="default", subresource="status")


def test_a_bind_is_released_once_the_api_server_would_refuse_the_binding(cluster: Cluster) -> None:
    later(cluster, 10 * ASK_AFTER)
    assert cluster.view().held == HELD

    note_failure(cluster)
    later(cluster, 1)

    assert cluster.view().held == {}


def test_l1_the_device_of_a_binding_that_arrives_minutes_later_is_still_kept(cluster: Cluster) -> None:
    late = next(call for call in reversed(cluster.kube.calls) if call.path.endswith("/binding"))
    later(cluster, 60)
    cluster.renew()
    second = cluster.create(a_pod("q").asks(1))
    cluster.ask(second)
    assert cluster.bind_to(second) == ""

    cluster.kube.create_subresource(PODS, "binding", late.body or {}, name="p", namespace="default")

    assert cluster.given("p") != cluster.given("q")


def test_a_repeated_bind_counts_as_recent_again(cluster: Cluster) -> None:
    later(cluster, ASK_AFTER - 1)
    cluster.kube.fail("POST", Unreachable(Request("POST", "/binding"), "timed out"))
    cluster.bind_to(cluster.stored())
    note_failure(cluster)

    later(cluster, 1)
    later(cluster, ASK_AFTER - 1)

    assert cluster.view().held == HELD


def test_after_a_successful_bind_the_pod_itself_holds_the_devices(cluster: Cluster) -> None:
    cluster.kube.create_subresource(
        PODS, "binding", cluster.kube.calls[-1].body or {}, name="p", namespace="default"
    )

    later(cluster, ASK_AFTER)

    assert cluster.view().held == HELD
    with cluster.state.locked() as ledger:
        assert ledger.assumed == {}


def test_a_pod_that_the_kubelet_has_rejected_meanwhile_is_released_and_bars_the_node(
    cluster: Cluster,
) -> None:
    over = a_pod().asks(1).on("n0", {"main": ("GPU-n0-0",)}).ended("Failed").raw
    refused = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
    cluster.kube.put(PODS, {**over, "status": {**over["status"], **refused}})

    later(cluster, ASK_AFTER)

    assert cluster.view().held == {}
    barring = cluster.state.serving.rejecting(monotonic=cluster.clock.monotonic())
    assert [rejection.pod.metadata.name for rejection in barring] == ["p"]


def test_a_deleted_pod_is_released(cluster: Cluster) -> None:
    cluster.kube.delete(PODS, "p", namespace="default", grace_seconds=0)

    later(cluster, ASK_AFTER)

    assert cluster.view().held == {}


def test_l6_nothing_is_released_while_the_api_server_is_away(cluster: Cluster) -> None:
    note_failure(cluster)
    cluster.kube.down = True

    later(cluster, 100)

    assert cluster.view().held == HELD
