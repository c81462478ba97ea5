"""Pods of a burst do not all go to the node that has one device left."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from cluster import names
from cluster.decide.predicates import RESERVED
from cluster.kube.errors import Refusal, Request, Unreachable, refused
from cluster.objects.pods import Pod
from extender.state.soft_reservations import SECONDS
from extender.verbs.prioritize import Prioritize
from extender.wire import ExtenderArgs, ExtenderBindingArgs, ExtenderFilterResult
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, A6000, PodBuilder, a100, a6000, a_pod

NODES = ("n0", "n1", "n2")
ON_N0 = a_pod("there").asks(1).on("n0", {"main": ("GPU-n0-0",)})


class Burst:
    """Three nodes of two A100 each; one A100 of n0 is in use, so that binpack ranks n0 best."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        for node in NODES:
            self.cluster.add_node(node, a100(0, node), a100(1, node))
        self.cluster.create(ON_N0)
        self.cluster.take("there")
        self._prioritize = Prioritize(self.cluster.state, self.cluster.clock)

    def create(self, name: str, gpus: int = 1) -> Pod:
        return self.cluster.create(a_pod(name).asks(gpus))

    def filtered(self, pod: Pod, *nodes: str) -> ExtenderFilterResult:
        return self.cluster.filter(ExtenderArgs(pod=pod, node_names=nodes or NODES))

    def fitting(self, pod: Pod, *nodes: str) -> list[str]:
        return sorted(self.filtered(pod, *nodes).node_names or ())

    def chosen(self, pod: Pod) -> str:
        """kube-scheduler asks filter and prioritize, and takes the node that is ranked best."""
        nodes = tuple(self.fitting(pod))
        if len(nodes) == 1:
            return nodes[0]
        self._prioritize.answer_logged(ExtenderArgs(pod=pod, node_names=nodes))
        ranked = self._prioritize(ExtenderArgs(pod=pod, node_names=nodes))
        return max(ranked, key=lambda one: one.score).host


@pytest.fixture
def burst() -> Burst:
    return Burst()


def test_the_next_pod_is_not_sent_to_a_device_that_the_previous_one_is_about_to_get(burst: Burst) -> None:
    first, second = burst.create("first"), burst.create("second")
    assert burst.chosen(first) == "n0"

    assert burst.fitting(second) == ["n1", "n2"]
    rejected = burst.filtered(second).failed_and_unresolvable_nodes
    assert rejected == {"n0": RESERVED.with_code}

    assert burst.cluster.bind_to(first, "n0") == ""
    assert burst.fitting(second) == ["n1", "n2"]


def test_no_pod_is_rejected_for_a_soft_reservation(burst: Burst) -> None:
    first, second = burst.create("first"), burst.create("second")
    burst.chosen(first)

    assert burst.fitting(second, "n0") == ["n0"]
    assert burst.cluster.bind_to(second, "n0") == ""


def test_a_node_left_out_for_a_soft_reservation_does_not_count_as_rejecting_the_pod(burst: Burst) -> None:
    """A rejected pod is requeued when the answer has changed."""
    first, second = burst.create("first"), burst.create("second")
    burst.chosen(first)
    burst.fitting(second)
    assert second.metadata.uid not in burst.cluster.state.rejections

    large = burst.create("large", gpus=2)
    burst.fitting(large)
    assert burst.cluster.state.rejections[large.metadata.uid].nodes == {"n0"}


def test_the_only_node_that_fits_is_reserved_by_filter_since_prioritize_is_not_asked(burst: Burst) -> None:
    first, second = burst.create("first"), burst.create("second")
    assert burst.fitting(first, "n0") == ["n0"]
    assert burst.fitting(second) == ["n1", "n2"]


def test_a_bind_that_waits_for_its_node_keeps_the_devices_reserved(burst: Burst) -> None:
    """Prioritize has reserved elsewhere, and for a second only; kube-scheduler adds scores of its own."""
    cluster = burst.cluster
    first, second, third = (burst.create(name) for name in ("first", "second", "third"))
    burst.filtered(second)
    assert cluster.bind_to(first, "n1") == ""
    bind = cluster.binding()
    meta = second.metadata
    waits = ExtenderBindingArgs(pod_name=meta.name, pod_namespace=meta.namespace, pod_uid=meta.uid, node="n1")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(bind, waits)
        cluster.clock.until_waiting()
        cluster.clock.advance(SECONDS + 0.5)
        assert burst.fitting(third, "n1", "n2") == ["n2"]
        cluster.take("first")
        assert answer.result(10).error == ""
    assert cluster.state.soft.of_others(third.metadata.uid) == {}


def test_a_bind_that_is_refused_leaves_no_reservation(burst: Burst) -> None:
    first, second = burst.create("first"), burst.create("second")
    burst.chosen(first)
    refusal = refused(Request("POST", "/binding"), Refusal(code=403, reason="Forbidden"))
    burst.cluster.kube.fail("POST", refusal)
    assert burst.cluster.bind_to(first, "n0")
    assert burst.fitting(second) == list(NODES)


def test_devices_of_a_pod_s_own_unresolved_bind_do_not_block_it(burst: Burst) -> None:
    mine, small, large = burst.create("mine"), burst.create("small"), burst.create("large", gpus=2)
    burst.cluster.kube.fail("POST", Unreachable(Request("POST", "/binding"), "timed out"))
    assert burst.cluster.bind_to(mine, "n1")
    burst.fitting(small, "n1")
    burst.fitting(large, "n2")
    # Besides those of the two others, n1 has the device that is already the pod's; n2 has none.
    assert burst.fitting(mine, "n1", "n2") == ["n1"]


def test_a_burst_of_as_many_pods_as_devices_of_two_models_has_no_refusal() -> None:
    cluster = Cluster()
    for node in NODES:
        cluster.add_node(node, a100(0, node), a100(1, node), a6000(2, node), a6000(3, node))
    prioritize = Prioritize(cluster.state, cluster.clock)
    models = (A100, A6000) * 6
    pods = [cluster.create(_wanting(number, model)) for number, model in enumerate(models)]
    late: list[tuple[Pod, str]] = []
    refusals = []
    for pod in pods:
        nodes = tuple(sorted(cluster.ask(pod, *NODES).node_names or ()))
        node = nodes[0]
        if len(nodes) > 1:
            prioritize.answer_logged(ExtenderArgs(pod=pod, node_names=nodes))
            ranked = prioritize(ExtenderArgs(pod=pod, node_names=nodes))
            node = max(ranked, key=lambda one: one.score).host
        late.append((pod, node))
        if len(late) > 2:  # a bind comes two pods later
            refusals.append(_bound(cluster, *late.pop(0)))
    refusals += [_bound(cluster, *one) for one in late]
    assert [error for error in refusals if error] == []


def _wanting(number: int, model: str) -> PodBuilder:
    return a_pod(f"p{number}").asks(1).wants(model)


def _bound(cluster: Cluster, pod: Pod, node: str) -> str:
    error = cluster.bind_to(pod, node)
    if not error:
        cluster.take(pod.metadata.name)
    assert not error or names.NOT_NOW not in error
    return error
