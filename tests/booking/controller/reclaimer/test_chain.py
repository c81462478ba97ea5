"""The whole chain with the real evictor: evicted, ended, come back without a GPU, at any restart (L4)."""

from collections.abc import Callable

import pytest

from booking.controller.reclaimer.evictions.pod_evictor import PodEvictor
from booking.controller.reclaimer.evictor import Evictor
from cluster import event_reasons, names
from cluster.kube.interface import Selection
from cluster.kube.resources import POD_TEMPLATES, PODS
from cluster.objects.pods import Pod, container_needs, is_live
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster


class Recorder:
    """Records the Events that are written."""

    def __init__(self, recorded: list[tuple[str, str, str]]) -> None:
        self._recorded = recorded

    def normal(self, about: Pod, reason: str, message: str, /) -> None:
        """Something went as it should."""
        self._recorded.append((about.metadata.name, reason, message))

    def warning(self, about: Pod, reason: str, message: str, /) -> None:
        """Something is wrong."""
        self._recorded.append((about.metadata.name, reason, message))


class Chain(FakeCluster):
    """A cluster in which pods really leave and come back."""

    def restart(self) -> None:
        """Another process takes over."""
        self.recorded: list[tuple[str, str, str]] = []
        """Name, reason and sentence of every Event about leaving and coming back."""
        self.pod_evictor = PodEvictor(self.api(), self.clock, Recorder(self.recorded), executor=self.executor)
        super().restart()

    def evictor_in_use(self) -> Evictor:
        """The real ones."""
        return self.pod_evictor

    def sync(self) -> None:
        """Let both caches catch up."""
        super().sync()
        ours = Selection(label_selector=f"{names.COMEBACK}=true")
        pods = self.kube.list(PODS, ours)
        templates = self.kube.list(POD_TEMPLATES, ours)
        self.pod_evictor.seen.pods.replace(pods.items, pods.resource_version)
        self.pod_evictor.seen.templates.replace(templates.items, templates.resource_version)

    def end(self, name: str) -> None:
        """The kubelet has ended a terminating pod."""
        self.kube.finish(PODS, name, namespace="default")


@pytest.fixture
def chain() -> Chain:
    """Alice's booked pod waits; bob's four have all A100s."""
    return Chain().contended()


def gpus(chain: Chain, name: str) -> int:
    return sum(need.count for need in container_needs(chain.pod(name)))


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "a new process for every pass"])
def test_the_victim_leaves_alice_is_served_and_bob_comes_back_without_a_gpu(
    chain: Chain,
    *,
    restarts: bool,
) -> None:
    step: Callable[[], None] = chain.reconcile

    def passes(number: int) -> None:
        for _ in range(number):
            if restarts:
                chain.restart()
            step()

    passes(3)
    victim = chain.pod("b3")
    assert not is_live(victim)
    assert [is_live(chain.pod(name)) for name in ("b0", "b1", "b2")] == [True] * 3
    chain.end("b3")
    passes(3)
    assert chain.held() is not None
    back = chain.pod("b3")
    assert back.metadata.annotation(names.RECREATED_FROM) == victim.metadata.uid
    assert gpus(chain, "b3") == 0
    assert back.metadata.annotation(names.NOTICE) is None
    chain.bind("a", 3)
    passes(3)
    assert chain.held() is None
    assert chain.annotation("a", names.BOOKING) == "b-1"
    chain.clock.advance(60)
    chain.renew()
    chain.end_booking()
    passes(3)
    assert not is_live(chain.pod("a"))
    chain.end("a")
    passes(3)
    assert is_live(chain.pod("a"))
    assert gpus(chain, "a") == 0
    assert chain.kube.list(POD_TEMPLATES).items == ()
    assert not any(pod.metadata.finalizers for pod in chain.kube.list(PODS).items)


def test_the_event_of_an_eviction_is_still_true_on_the_pod_that_came_back(chain: Chain) -> None:
    chain.reconcile(3)
    chain.end("b3")
    chain.reconcile(3)
    because = "The booked pod default/a needed the GPUs of this pod."
    assert chain.recorded == [
        ("b3", event_reasons.EVICTED_FOR_BOOKING, because),
        ("b3", event_reasons.CAME_BACK, f"This pod came back without a GPU. {because}"),
    ]
    assert chain.annotation("b3", names.COMEBACK_MESSAGE) == because


def test_a_victim_behind_a_disruption_budget_is_left_as_it_was(chain: Chain) -> None:
    chain.kube.protect("uid-b3")
    chain.reconcile(8)
    spared = chain.pod("b3")
    assert is_live(spared)
    assert not spared.metadata.finalizers
    assert spared.metadata.annotation(names.NOTICE) is None
    assert not is_live(chain.pod("b2"))
    assert [chain.exists(name) for name in ("b0", "b1")] == [True, True]
