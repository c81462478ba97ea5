"""Binds wait for their node in a queue: the first is notified, and checks by itself now and then."""

from concurrent.futures import ThreadPoolExecutor

from cluster.fake.clock import FakeClock
from cluster.kube.resources import PODS
from extender.binding.bind import PATIENCE
from extender.state.bind_queue import AGAIN, BindQueue
from tests.extender.binding.test_bind_turns import arguments, filtered
from tests.extender.cluster import Cluster


class Kubelets:
    """Which nodes owe an answer."""

    def __init__(self, *unresponsive: str) -> None:
        self.unresponsive = set(unresponsive)

    def __call__(self, node: str) -> bool:
        return node in self.unresponsive


def test_a_bind_does_not_wait_for_a_node_whose_kubelet_owes_no_answer() -> None:
    clock = FakeClock(self_advancing=True)
    assert BindQueue(clock).wait("n0", Kubelets("n1"), 1.0)
    assert clock.waits == []


def test_a_waiting_bind_is_notified_when_the_kubelet_has_answered_and_checks_no_sooner() -> None:
    clock, kubelets = FakeClock(), Kubelets("n0")
    queue = BindQueue(clock)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.wait, "n0", kubelets, 1.0)
        clock.until_waiting()
        kubelets.unresponsive.clear()
        queue.notify("n1")
        assert not waiting.done()
        queue.notify("n0")
        # Time stands still: only the notification has ended the wait.
        assert waiting.result(10)
    assert clock.waits == [AGAIN]


def test_one_notification_releases_only_the_bind_that_came_first() -> None:
    clock, kubelets = FakeClock(), Kubelets("n0")
    queue, gone = BindQueue(clock), []

    def wait(name: str) -> None:
        assert queue.wait("n0", kubelets, 1.0)
        gone.append(name)
        # Its pod is bound: now the kubelet owes an answer for that.
        kubelets.unresponsive.add("n0")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(wait, "first")
        clock.until_waiting(1)
        second = pool.submit(wait, "second")
        clock.until_waiting(2)
        kubelets.unresponsive.clear()
        queue.notify("n0")
        first.result(10)
        assert gone == ["first"]
        kubelets.unresponsive.clear()
        queue.notify("n0")
        second.result(10)
    assert gone == ["first", "second"]


def test_a_waiting_bind_notices_without_notification_that_no_answer_is_owed() -> None:
    clock, kubelets = FakeClock(), Kubelets("n0")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(BindQueue(clock).wait, "n0", kubelets, 1.0)
        clock.until_waiting()
        kubelets.unresponsive.clear()
        clock.advance(AGAIN)
        assert waiting.result(10)


def test_a_bind_gives_up_waiting_and_leaves_no_queue_behind() -> None:
    clock = FakeClock(self_advancing=True)
    queue = BindQueue(clock)
    assert not queue.wait("n0", Kubelets("n0"), 0.25)
    assert clock.monotonic() == 0.25
    assert queue.wait("n0", Kubelets(), 1.0)


def test_the_cache_notifies_when_a_kubelet_has_taken_a_pod_or_the_pod_is_gone() -> None:
    for ends in ("take", "delete"):
        cluster = Cluster()
        cluster.add_node("n0")
        first, second = filtered(cluster, "a"), filtered(cluster, "b")
        assert cluster.bind_to(first) == ""
        cluster.pods.upsert(cluster.stored("a"))
        bind = cluster.binding()
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(bind, arguments(second))
            cluster.clock.until_waiting()
            if ends == "take":
                cluster.take("a")
            else:
                cluster.state.of(PODS).remove(cluster.stored("a"))
            assert answer.result(10).error == ""
        assert cluster.clock.monotonic() < AGAIN < PATIENCE


def test_an_unused_turn_passes_to_the_next_bind() -> None:
    cluster = Cluster()
    cluster.add_node("n0")
    first, second, third = filtered(cluster, "a"), filtered(cluster, "b"), filtered(cluster, "c")
    assert cluster.bind_to(first) == ""
    cluster.pods.upsert(cluster.stored("a"))
    cluster.label("b", x="y")
    bind = cluster.binding()
    with ThreadPoolExecutor(2) as pool:
        refused = pool.submit(bind, arguments(second))
        cluster.clock.until_waiting(1)
        bound = pool.submit(bind, arguments(third))
        cluster.clock.until_waiting(2)
        cluster.take("a")
        assert "has changed" in refused.result(10).error
        assert bound.result(10).error == ""
    assert cluster.clock.monotonic() < AGAIN
