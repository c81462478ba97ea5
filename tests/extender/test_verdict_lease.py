"""The extender that leads shows by a Lease that it answers, and what it says of pods with a hold (law L3)."""

from typing import Any

import pytest

from cluster import names
from cluster.kube.errors import NotFound, Refusal, Request, refused
from cluster.kube.resources import LEASES, PODS
from cluster.objects.hold_verdicts import ACCEPTED, NOT_FREE, NOT_NOW, REFUSED, verdicts_of
from cluster.objects.nodes import Lease
from cluster.objects.pods import Pod
from extender.verdict_lease import EVERY, VerdictLease
from tests.extender.cluster import Cluster
from tests.fakes.objects import a100, a_pod

GPU = a100(0, "n0").uuid


class Published:
    """A cluster with a waiting pod whose GPU is kept for it, and the Lease."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.unready: str | None = None
        self.lease = self.another("first")
        self.cluster.add_node("n0", a100(0, "n0"))

    def another(self, holder: str) -> VerdictLease:
        """Another process of the extender."""
        return VerdictLease(
            self.cluster.kube,
            self.cluster.state,
            self.cluster.clock,
            namespace=names.NAMESPACE,
            holder=holder,
            leads=lambda: self.cluster.leading,
            unready_reason=lambda: self.unready,
        )

    def held(self) -> Pod:
        """A booked pod for which the GPU is kept."""
        self.cluster.book()
        return self.cluster.create(a_pod("a").of("alice").asks(1).kept("n0", GPU))

    def fails(self, pod: Pod) -> Pod:
        """kube-scheduler reports an error."""
        conditions = [{"type": "PodScheduled", "status": "False", "reason": "SchedulerError"}]
        body: dict[str, Any] = {"status": {"conditions": conditions}}
        name = pod.metadata.name
        changed = self.cluster.kube.patch(PODS, name, body, namespace="default", subresource="status")
        self.cluster.pods.upsert(changed)
        return changed

    def stored(self) -> Lease:
        return self.cluster.kube.get(LEASES, names.VERDICT_LEASE, namespace=names.NAMESPACE)

    def verdict(self, pod: Pod) -> str | None:
        """The pod's code on the Lease after the next round."""
        self.cluster.clock.advance(EVERY)
        self.lease.reconcile()
        return verdicts_of(self.stored()).get(pod.metadata.uid)


@pytest.fixture
def published() -> Published:
    made = Published()
    made.lease.reconcile()
    return made


def test_it_is_renewed_while_the_extender_answers_and_leads(published: Published) -> None:
    first = published.stored().spec.renew_time
    published.cluster.clock.advance(EVERY)
    published.lease.reconcile()
    assert published.stored().spec.renew_time != first


@pytest.mark.parametrize("leads", [False, True])
def test_it_is_released_when_it_does_not_and_another_takes_it_over(
    published: Published, *, leads: bool
) -> None:
    published.cluster.leading, published.unready = leads, "stale" if leads else None
    published.lease.reconcile()
    assert published.stored().metadata.annotation(names.STOPPING)
    published.cluster.leading, published.unready = True, None
    published.another("second").reconcile()
    assert published.stored().spec.holder_identity == "second"
    assert not published.stored().metadata.annotation(names.STOPPING)


def test_one_that_never_led_writes_nothing() -> None:
    published = Published()
    published.cluster.leading = False
    published.lease.reconcile()
    published.lease.release()
    with pytest.raises(NotFound):
        published.stored()


def test_a_pod_whose_devices_are_not_free_is_named_until_it_is_accepted(published: Published) -> None:
    cluster = published.cluster
    cluster.create(a_pod("b").asks(1).on("n0", {"main": (GPU,)}))
    pod = published.held()
    cluster.ask(pod)
    assert published.verdict(pod) == NOT_FREE
    cluster.pods.remove(cluster.stored("b"))
    cluster.ask(pod)
    assert published.verdict(pod) is None


def test_an_answer_counts_after_an_error_of_the_scheduler(published: Published) -> None:
    pod = published.fails(published.held())
    assert published.verdict(pod) is None
    published.cluster.ask(pod)
    assert published.verdict(pod) == ACCEPTED


@pytest.mark.parametrize(("code", "verdict"), [(403, REFUSED), (401, NOT_NOW), (429, NOT_NOW)])
def test_a_refused_binding_says_whether_the_node_is_to_blame(
    published: Published, code: int, verdict: str
) -> None:
    pod = published.held()
    published.cluster.ask(pod)
    published.cluster.kube.fail("POST", refused(Request("POST", "binding"), Refusal(code=code)))
    assert published.cluster.bind_to(pod)
    assert published.verdict(published.fails(pod)) == verdict
