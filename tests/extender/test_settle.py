import pytest

from cluster.decide.ledger import WHOLE
from cluster.kube.errors import Request, Unreachable
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod
from extender.settle import ASK_AFTER, RELEASE_AFTER, Verdict, verdict
from tests.extender.cluster import Cluster
from tests.fakes.objects import a_pod

HELD = {"GPU-n0-0": WHOLE}


@pytest.mark.parametrize(
    ("pod", "age", "expected"),
    [
        (None, 0.0, "never"),
        (a_pod("another").obj, 0.0, "never"),
        (a_pod().ended().obj, 0.0, "never"),
        (a_pod().on("n0").ended().obj, 0.0, "never"),
        (a_pod().on("n0").obj, 0.0, "bound"),
        (a_pod().obj, RELEASE_AFTER - 1, "wait"),
        (a_pod().obj, RELEASE_AFTER, "never"),
    ],
)
def test_what_became_of_a_bind(pod: Pod | None, age: float, expected: Verdict) -> None:
    assert verdict(pod, "uid-p", age) == expected


@pytest.fixture
def cluster() -> Cluster:
    """A cluster with a pod whose bind got no answer."""
    made = Cluster()
    made.add_node("n0")
    pod = made.create(a_pod().asks(1))
    made.ask(pod)
    made.kube.fail("POST", Unreachable(Request("POST", "/binding"), "timed out"))
    made.bind_to(pod)
    made.settle.look()
    return made


def later(cluster: Cluster, seconds: float) -> None:
    cluster.clock.advance(seconds)
    cluster.settle.look()


def test_a_young_bind_is_not_asked_for(cluster: Cluster) -> None:
    asked = len(cluster.kube.calls)

    later(cluster, ASK_AFTER - 1)

    assert len(cluster.kube.calls) == asked


def test_a_bind_that_did_not_happen_is_released_in_the_end(cluster: Cluster) -> None:
    later(cluster, ASK_AFTER)
    assert cluster.view().held == HELD

    later(cluster, RELEASE_AFTER - ASK_AFTER)

    assert cluster.view().held == {}


def test_a_repeated_bind_gets_its_full_time_again(cluster: Cluster) -> None:
    later(cluster, RELEASE_AFTER - 1)
    cluster.kube.fail("POST", Unreachable(Request("POST", "/binding"), "timed out"))
    cluster.bind_to(cluster.stored())

    later(cluster, 1)
    later(cluster, RELEASE_AFTER - 1)

    assert cluster.view().held == HELD


def test_a_bind_that_did_happen_is_held_by_the_pod_itself(cluster: Cluster) -> None:
    cluster.kube.create_subresource(
        PODS, "binding", cluster.kube.calls[-1].body or {}, name="p", namespace="default"
    )

    later(cluster, ASK_AFTER)

    assert cluster.view().held == HELD
    with cluster.state.locked() as ledger:
        assert ledger.assumed == {}


def test_a_deleted_pod_is_released(cluster: Cluster) -> None:
    cluster.kube.delete(PODS, "p", namespace="default", grace_seconds=0)

    later(cluster, ASK_AFTER)

    assert cluster.view().held == {}


def test_l6_nothing_is_released_while_the_api_server_is_away(cluster: Cluster) -> None:
    cluster.kube.down = True

    later(cluster, 10 * RELEASE_AFTER)

    assert cluster.view().held == HELD
