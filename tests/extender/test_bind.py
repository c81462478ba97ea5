import threading
from typing import Any

import msgspec
import pytest

from cluster import names
from cluster.decide.ledger import WHOLE
from cluster.kube.errors import Refusal, Request, ServerError, Unreachable, refused
from cluster.kube.resources import PODS
from extender.bind import DEADLINE, Bind
from extender.flights import Flights
from tests.extender.cluster import Cluster
from tests.fakes.clock import FakeClock, eventually
from tests.fakes.kube import FakeKube
from tests.fakes.objects import A100, a100, a_pod

ANYTHING = Request("POST", "/anything")


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.add_node("n0")
    made.add_node("n1")
    return made


def test_node_and_devices_are_written_in_one_binding(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1).wants(A100))
    cluster.ask(pod)

    assert cluster.bind_to(pod) == ""

    assert cluster.stored().spec.node_name == "n0"
    assert cluster.given() == {"main": ("GPU-n0-0",)}
    (call,) = [call for call in cluster.kube.calls if call.verb == "POST"]
    assert call.path == "/api/v1/namespaces/default/pods/p/binding"
    assert call.body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": pod.metadata.uid,
            "resourceVersion": pod.metadata.resource_version,
            "annotations": {names.ASSIGNED: '{"main":["GPU-n0-0"]}'},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n0"},
    }


def test_the_devices_are_held_before_the_pods_event_comes(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)

    cluster.bind_to(pod)

    assert cluster.view().held == {"GPU-n0-0": WHOLE}


def test_l1_pods_bound_one_after_another_get_different_devices(cluster: Cluster) -> None:
    for name in "abcd":
        pod = cluster.create(a_pod(name).asks(1))
        cluster.ask(pod)
        assert cluster.bind_to(pod) == ""

    given = [cluster.given(name) for name in "abcd"]

    assert sorted(str(one) for one in given) == [f"{{'main': ('GPU-n0-{index}',)}}" for index in range(4)]


def test_a_pod_that_filter_never_saw_is_read_first(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))

    assert cluster.bind_to(pod) == ""

    assert cluster.given() == {"main": ("GPU-n0-0",)}


def test_a_pod_without_gpus_is_bound_without_annotation(cluster: Cluster) -> None:
    pod = cluster.create(a_pod())
    cluster.ask(pod)

    assert cluster.bind_to(pod) == ""

    assert cluster.stored().spec.node_name == "n0"
    assert cluster.given() is None


def test_a_node_that_has_filled_up_since_is_refused(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1).wants(A100))
    cluster.ask(pod)
    cluster.create(a_pod("q").asks(2).on("n0", {"main": ("GPU-n0-0", "GPU-n0-1")}))

    error = cluster.bind_to(pod)

    assert error == (
        f"The pod no longer fits on node n0: not enough GPUs of model {A100} on this node are free."
    )
    assert cluster.bindings() == []


def test_l6_nothing_is_bound_to_a_node_whose_agent_is_silent(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.clock.advance(76)

    assert cluster.bind_to(pod) == "The pod no longer fits on node n0: the GPU agent of the node is silent."


def test_a_pod_that_changed_since_it_was_filtered_is_decided_anew(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.kube.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, namespace="default")

    error = cluster.bind_to(pod)

    assert error == "The pod has changed since it was filtered; it is decided anew with the next attempt."
    assert cluster.view().held == {}
    assert cluster.stored().spec.node_name is None

    again = cluster.stored()
    cluster.ask(again)
    assert cluster.bind_to(again) == ""


def test_a_pod_that_somebody_else_has_bound_is_left_to_them(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.kube.create_subresource(
        PODS, "binding", {"target": {"name": "n1"}}, name="p", namespace="default"
    )

    assert cluster.bind_to(pod) == "The pod is bound to node n1 already."

    assert cluster.view("n0").held == {}
    assert cluster.view("n1").unknown == {names.GPU_RESOURCE: 1}


def test_a_pod_that_is_being_deleted_is_not_bound(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.kube.delete(PODS, "p", namespace="default", grace_seconds=0)

    assert "NotFound" in cluster.bind_to(pod)

    assert cluster.view().held == {}


def test_another_pod_under_the_same_name_is_not_bound(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.kube.delete(PODS, "p", namespace="default", grace_seconds=0)
    cluster.kube.put(PODS, {**a_pod().asks(1).raw, "metadata": {"name": "p", "namespace": "default"}})

    assert cluster.bind_to(pod) == "The pod is gone; another one has its name."

    assert cluster.view().held == {}


def test_a_refusal_takes_the_decision_back(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.kube.fail("POST", refused(ANYTHING, Refusal(code=403, reason="Forbidden")))

    assert cluster.bind_to(pod) == "The API server refused the Binding (403 Forbidden)."

    assert cluster.view().held == {}


@pytest.mark.parametrize(
    "lost", [Unreachable(ANYTHING, "timed out"), ServerError(ANYTHING, Refusal(code=504))]
)
def test_a_lost_answer_keeps_the_decision_and_a_repeat_posts_the_same(
    cluster: Cluster, lost: Unreachable | ServerError
) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.kube.fail("POST", lost)

    assert cluster.bind_to(pod) == (
        "The API server has not said whether the pod is bound; the same bind is tried again."
    )
    assert cluster.view().held == {"GPU-n0-0": WHOLE}

    assert cluster.bind_to(pod) == ""
    assert cluster.given() == {"main": ("GPU-n0-0",)}


def test_l6_a_lost_bind_is_not_repeated_to_a_node_whose_agent_has_fallen_silent(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.kube.fail("POST", Unreachable(ANYTHING, "timed out"))
    cluster.bind_to(pod)
    cluster.clock.advance(76)

    assert cluster.bind_to(pod) == "The pod no longer fits on node n0: the GPU agent of the node is silent."

    assert cluster.bindings() == ["n0"]
    assert cluster.view().held == {"GPU-n0-0": WHOLE}


def test_a_lost_bind_is_not_repeated_with_a_gpu_that_has_fallen_ill(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.kube.fail("POST", Unreachable(ANYTHING, "timed out"))
    cluster.bind_to(pod)
    cluster.add_node("n0", msgspec.structs.replace(a100(0), health="unhealthy"), a100(1))

    assert cluster.bind_to(pod) == (
        "The pod no longer fits on node n0: a GPU that was chosen is not healthy any more."
    )

    assert cluster.bindings() == ["n0"]


def test_a_repeat_for_another_node_does_not_overtake_an_unsettled_bind(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.kube.fail("POST", Unreachable(ANYTHING, "timed out"))
    cluster.bind_to(pod)

    error = cluster.bind_to(pod, "n1")

    assert error == "An earlier bind of the pod to node n0 is not settled yet."
    assert cluster.bindings() == ["n0"]


def test_a_repeat_after_success_is_success_without_another_binding(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.bind_to(pod)

    assert cluster.bind_to(pod) == ""

    assert cluster.bindings() == ["n0"]


def test_a_repeat_for_another_node_after_success_names_the_first(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.bind_to(pod)

    assert cluster.bind_to(pod, "n1") == "The pod is bound to node n0 already."


def test_no_decision_is_repeated_while_the_api_server_is_away(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.kube.down = True

    for _ in range(3):
        assert cluster.bind_to(pod) != ""

    assert cluster.bindings() == ["n0"]
    cluster.kube.down = False
    assert cluster.bind_to(pod) == ""


class ReluctantClock(FakeClock):
    """Time passes whenever somebody looks."""

    def monotonic(self) -> float:
        self.advance(DEADLINE + 0.1)
        return super().monotonic()


def test_a_decision_that_has_grown_old_is_not_posted(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.bind = Bind(cluster.kube, cluster.state, ReluctantClock(), Flights())

    assert cluster.bind_to(pod) == (
        "The decision was too old to be written; it is made anew with the next attempt."
    )

    assert cluster.bindings() == []
    assert cluster.view().held == {}


class SlowKube(FakeKube):
    """An API server that answers a Binding only when it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed = threading.Event()

    def create_subresource(self, *args: Any, **named: Any) -> None:
        """Wait, then do it."""
        assert self.allowed.wait(10)
        super().create_subresource(*args, **named)


def in_background(target: Any, answers: list[str]) -> threading.Thread:
    thread = threading.Thread(target=lambda: answers.append(target()))
    thread.start()
    return thread


@pytest.fixture
def slow(cluster: Cluster) -> SlowKube:
    kube = SlowKube()
    cluster.kube = kube
    cluster.bind = Bind(kube, cluster.state, cluster.clock, Flights())
    return kube


def test_two_binds_for_one_pod_at_once_end_in_one_binding(cluster: Cluster, slow: SlowKube) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    answers: list[str] = []

    threads = [in_background(lambda: cluster.bind_to(pod), answers) for _ in range(2)]
    eventually(lambda: cluster.view().held)
    slow.allowed.set()
    for thread in threads:
        thread.join(10)

    assert answers == ["", ""]
    assert cluster.bindings() == ["n0"]


def test_l1_a_pod_that_is_filtered_during_a_bind_does_not_see_its_device(
    cluster: Cluster, slow: SlowKube
) -> None:
    first, second = cluster.create(a_pod("a").asks(4)), cluster.create(a_pod("b").asks(1))
    cluster.ask(first)
    answers: list[str] = []

    thread = in_background(lambda: cluster.bind_to(first), answers)
    eventually(lambda: cluster.view().held)
    result = cluster.ask(second)
    slow.allowed.set()
    thread.join(10)

    assert result.node_names == []
    assert answers == [""]
