import itertools
from typing import Any

import pytest
from structlog.testing import capture_logs

from cluster import names
from cluster.decide.ledger import WHOLE
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.fake.user import UserKube
from cluster.kube.resources import PODS
from cluster.objects.hold import Hold, encode_hold
from extender.binding.bind import BUDGET, Bind
from extender.binding.bind_decision import NOT_LEADING
from extender.binding.binding_post import CONNECTING, DEADLINE
from extender.binding.keyed_lock import KeyedLock
from extender.leadership import always
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, A6000, a_pod


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


def test_one_line_of_the_log_names_the_pod_the_node_and_the_devices(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(2).wants(A100))
    cluster.ask(pod)
    with capture_logs() as lines:
        cluster.bind_to(pod)
        cluster.bind_to(pod, "n1")

    event = {"event": "bind answered", "log_level": "info", "pod": "default/p", "uid": "uid-p"}
    bound, refused_ = [line for line in lines if line["event"] == "bind answered"]
    assert bound == event | {"node": "n0", "devices": ["GPU-n0-0", "GPU-n0-1"], "error": None}
    assert refused_ == event | {
        "node": "n1",
        "devices": None,
        "error": "The pod is bound to node n0 already.",
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
        cluster.take(name)

    given = [cluster.given(name) for name in "abcd"]

    assert sorted(str(one) for one in given) == [f"{{'main': ('GPU-n0-{index}',)}}" for index in range(4)]


def test_a_pod_that_filter_never_saw_is_read_before_it_is_bound(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))

    assert cluster.bind_to(pod) == ""

    assert cluster.given() == {"main": ("GPU-n0-0",)}


def test_l6_nothing_is_bound_to_a_node_whose_agent_is_unresponsive(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.clock.advance(76)

    assert (
        cluster.bind_to(pod)
        == "The pod no longer fits on node n0: the GPU agent of the node is unresponsive."
    )


def test_a_pod_that_changed_since_it_was_filtered_is_decided_again(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.kube.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, namespace="default")

    error = cluster.bind_to(pod)

    assert error == f"{names.NOT_NOW} The pod has changed since it was filtered; it is decided again."
    assert cluster.view().held == {}
    assert cluster.stored().spec.node_name is None

    again = cluster.stored()
    cluster.ask(again)
    assert cluster.bind_to(again) == ""


def test_a_pod_that_was_only_nominated_since_filter_is_bound_at_the_first_attempt(cluster: Cluster) -> None:
    """Since 1.35 kube-scheduler does that itself, where a volume is bound with the pod."""
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    nominated = {"status": {"nominatedNodeName": "n0"}}
    cluster.kube.patch(PODS, "p", nominated, namespace="default", subresource="status")

    assert cluster.bind_to(pod) == ""

    assert cluster.stored().spec.node_name == "n0"
    assert cluster.view().held == {"GPU-n0-0": WHOLE}
    assert cluster.bindings() == ["n0", "n0"]


def test_a_pod_that_changes_repeatedly_is_decided_again_only_once(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    touched = itertools.count()

    def touch() -> bool:
        """Just before the Binding is posted."""
        cluster.change("p", "touched", str(next(touched)))
        return True

    cluster.bind = Bind(cluster.kube, cluster.state, cluster.clock, KeyedLock(cluster.clock), leads=touch)

    assert cluster.bind_to(pod).startswith(names.NOT_NOW)

    assert cluster.bindings() == ["n0", "n0"]
    assert cluster.view().held == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (names.MODEL, A6000),
        (names.HOLD, encode_hold(Hold(node="n0", devices=("GPU-n0-3",), at=FakeClock().now()))),
    ],
    ids=["request", "hold"],
)
def test_a_pod_whose_request_has_changed_is_filtered_again(cluster: Cluster, key: str, value: str) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    body = {"metadata": {"annotations": {key: value}}}
    cluster.kube.patch(PODS, "p", body, namespace="default")

    assert cluster.bind_to(pod).startswith(names.NOT_NOW)

    assert cluster.bindings() == ["n0"]
    assert cluster.view().held == {}


class SlowReads(UserKube):
    """The same API server; each read takes a while, and its time limit is recorded."""

    def __init__(self, cluster: Cluster, seconds: float) -> None:
        super().__init__(cluster.kube._core)
        self._clock = cluster.clock
        self._seconds = seconds
        self.within: list[float | None] = []

    def get(self, *args: Any, **named: Any) -> Any:
        """Take a while."""
        self.within.append(named["within"])
        self._clock.advance(self._seconds)
        return super().get(*args, **named)


@pytest.mark.parametrize(("seconds", "bound"), [(0.9, True), (1.1, False)])
def test_a_repeated_decision_has_only_the_rest_of_the_time(
    cluster: Cluster, seconds: float, *, bound: bool
) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.kube.patch(PODS, "p", {"metadata": {"annotations": {"a": "b"}}}, namespace="default")
    slow = SlowReads(cluster, seconds)
    cluster.bind = Bind(slow, cluster.state, cluster.clock, KeyedLock(cluster.clock), leads=always)

    error = cluster.bind_to(pod)

    too_old = f"{names.NOT_NOW} The decision was too old to be written; it is made again."
    assert error == ("" if bound else too_old)
    assert bool(cluster.stored().spec.node_name) == bound


def test_all_reads_and_the_post_of_a_bind_share_one_time_budget(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    slow = SlowReads(cluster, BUDGET - CONNECTING + 0.25)
    cluster.bind = Bind(slow, cluster.state, cluster.clock, KeyedLock(cluster.clock), leads=always)

    assert cluster.bind_to(pod).startswith(names.NOT_NOW)

    assert slow.within == [BUDGET]
    assert cluster.bindings() == []
    assert cluster.view().held == {}


def test_a_pod_that_somebody_else_has_bound_is_not_bound_again(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    binding = {"metadata": {"name": "p"}, "target": {"name": "n1"}}
    cluster.kube.create_subresource(PODS, "binding", binding, name="p", namespace="default")

    assert cluster.bind_to(pod) == "The pod is bound to node n1 already."

    assert cluster.view("n0").held == {}
    assert cluster.view("n1").unknown == {names.GPU_RESOURCE: 1}


def test_another_pod_under_the_same_name_is_not_bound(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.kube.delete(PODS, "p", namespace="default", grace_seconds=0)
    cluster.kube.put(PODS, {**a_pod().asks(1).raw, "metadata": {"name": "p", "namespace": "default"}})

    assert cluster.bind_to(pod) == "The pod is gone; another one has its name."

    assert cluster.view().held == {}


class Frozen:
    """A process that is frozen just before it checks whether it leads."""

    def __init__(self, cluster: Cluster, seconds: float) -> None:
        self._cluster = cluster
        self._seconds = seconds

    def __call__(self) -> bool:
        self._cluster.clock.advance(self._seconds)
        return self._cluster.leading


def test_a_process_that_was_frozen_after_its_decision_posts_nothing(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.bind = Bind(
        cluster.kube, cluster.state, cluster.clock, KeyedLock(cluster.clock), leads=Frozen(cluster, 20)
    )

    assert cluster.bind_to(pod) == (
        f"{names.NOT_NOW} The decision was too old to be written; it is made again."
    )

    assert cluster.bindings() == []
    assert cluster.view().held == {}


def test_l6_an_extender_that_does_not_lead_posts_nothing_and_holds_nothing(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.leading = False

    assert cluster.bind_to(pod) == NOT_LEADING

    assert cluster.bindings() == []
    assert cluster.view().held == {}

    cluster.leading = True
    assert cluster.bind_to(pod) == ""


def test_a_binding_is_sent_within_the_rest_of_its_time(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    kube = Hasty(cluster.clock)
    kube.put(PODS, a_pod().asks(1).raw)
    cluster.bind = Bind(
        kube, cluster.state, cluster.clock, KeyedLock(cluster.clock), leads=Frozen(cluster, 0.75)
    )

    assert cluster.bind_to(pod) == ""

    assert kube.within == [DEADLINE - 0.75]


class Hasty(FakeKube):
    """An API server that records how much time a post has."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.within: list[float | None] = []

    def create_subresource(self, *args: Any, **named: Any) -> None:
        """Record it, then do it."""
        self.within.append(named["within"])
        super().create_subresource(*args, **named)
