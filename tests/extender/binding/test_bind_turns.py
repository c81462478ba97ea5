"""One pod at a time is on its way to a node: the next is bound when the kubelet has answered."""

import re
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from cluster.decide.serving import ANSWERED_WITHIN
from cluster.fake.clock import FakeClock
from cluster.objects.pods import Pod
from extender.binding.bind import BUDGET, PATIENCE
from extender.binding.bind_decision import AwaitsKubeletError
from extender.binding.binding_post import CONNECTING
from extender.wire import ExtenderBindingArgs
from tests.extender.cluster import Cluster
from tests.fakes.objects import a100, a_pod

UNANSWERED = str(AwaitsKubeletError("n0"))
CHART = Path(__file__).resolve().parents[3] / "charts" / "gpu-booking"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.add_node("n0")
    made.add_node("n1")
    return made


def filtered(cluster: Cluster, name: str) -> Pod:
    pod = cluster.create(a_pod(name).asks(1))
    cluster.ask(pod, "n0", "n1")
    return pod


def arguments(pod: Pod, node: str = "n0") -> ExtenderBindingArgs:
    meta = pod.metadata
    return ExtenderBindingArgs(pod_name=meta.name, pod_namespace=meta.namespace, pod_uid=meta.uid, node=node)


def test_a_second_pod_is_not_bound_before_the_kubelet_has_answered_for_the_first(cluster: Cluster) -> None:
    first, second = filtered(cluster, "a"), filtered(cluster, "b")
    assert cluster.bind_to(first) == ""
    assert cluster.bind_to(second) == UNANSWERED
    cluster.pods.upsert(cluster.stored("a"))
    assert cluster.bind_to(second) == UNANSWERED
    cluster.take("a")
    assert cluster.bind_to(second) == ""


def test_no_bind_waits_for_a_pod_whose_decision_was_taken_back(cluster: Cluster) -> None:
    first, second = filtered(cluster, "a"), filtered(cluster, "b")
    cluster.label("a", x="y")
    assert "has changed" in cluster.bind_to(first)
    assert cluster.bind_to(second) == ""


@pytest.mark.parametrize("is_seen", [True, False])
def test_an_unresponsive_kubelet_delays_binds_to_its_node_for_a_while(
    cluster: Cluster, *, is_seen: bool
) -> None:
    first, second = filtered(cluster, "a"), filtered(cluster, "b")
    cluster.bind_to(first)
    if is_seen:
        cluster.pods.upsert(cluster.stored("a"))
    cluster.clock.advance(ANSWERED_WITHIN)
    assert cluster.bind_to(second) == UNANSWERED  # nor has its agent reported anything since
    cluster.renew("n0")
    assert cluster.bind_to(second) == ""


def advancing(cluster: Cluster) -> None:
    """From here on a wait moves the time."""
    cluster.clock = FakeClock(self_advancing=True)
    cluster.state._clock = cluster.state.bind_queue._clock = cluster.clock


@pytest.mark.parametrize("window", [1, 3, 8])
def test_of_pods_that_come_at_once_no_more_are_unanswered_than_the_window_is_wide(window: int) -> None:
    cluster = Cluster(window)
    count = 20
    cluster.add_node("large", *(a100(index, "large") for index in range(count)))
    pods = [filtered(cluster, f"p{number}") for number in range(count)]
    most = 0

    def answer_one() -> bool:
        nonlocal most
        waiting = [p for p in map(cluster.stored, names) if p.spec.node_name and not p.status.start_time]
        most = max(most, len(waiting))
        for pod in waiting:
            cluster.take(pod.metadata.name)
        return bool(waiting)

    names = [pod.metadata.name for pod in pods]
    bind = cluster.binding()
    with ThreadPoolExecutor(count) as pool:
        answers = [pool.submit(bind, arguments(pod, "large")) for pod in pods]
        while not all(answer.done() for answer in answers):
            # Time stands still: each is notified when the kubelet has answered for one before.
            if not answer_one():
                wait(answers, 0.01)
    assert [answer.result().error for answer in answers] == [""] * count
    assert most <= window
    assert len({str(cluster.given(name)) for name in names}) == count


def test_a_bind_gives_up_waiting_before_kube_scheduler_gives_up(cluster: Cluster) -> None:
    cluster.bind_to(filtered(cluster, "a"))
    advancing(cluster)
    begun = cluster.clock.monotonic()
    assert cluster.binding()(arguments(filtered(cluster, "b"))).error == UNANSWERED
    assert PATIENCE <= cluster.clock.monotonic() - begun < PATIENCE + 0.1


def test_a_bind_answers_before_kube_scheduler_gives_up() -> None:
    (profile,) = CHART.rglob("_scheduler.tpl")
    found = re.search(r"httpTimeout: (\d+)s", profile.read_text())
    assert found is not None
    assert PATIENCE < BUDGET < float(found[1])


def test_a_bind_that_has_waited_its_turn_still_has_time_to_post(cluster: Cluster) -> None:
    cluster.bind_to(filtered(cluster, "a"))
    bind, second = cluster.binding(), arguments(filtered(cluster, "b"))
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(bind, second)
        cluster.clock.until_waiting()
        cluster.clock.advance(PATIENCE - 0.05)
        cluster.take("a")
        assert answer.result(10).error == ""
    assert PATIENCE + CONNECTING < BUDGET
