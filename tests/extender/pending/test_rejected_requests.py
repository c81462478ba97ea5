"""What rejected pods request by now, read again only where something has changed."""

from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest

from cluster import names
from cluster.decide.request import GpuRequest
from cluster.objects.pods import Pod
from extender.pending.rejected_requests import RejectedRequests
from extender.state.cluster_state import Rejection
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, A6000, a_booking, a_pod


class Rejected:
    """A pod of alice's that fits nowhere, and its present request."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.add_node("n0")
        self.requests = RejectedRequests(self.cluster.state, self.cluster.clock)
        self.pod = self.cluster.create(a_pod().asks(4).of("alice"))
        self.cluster.ask(self.pod)

    def now(self, pod: Pod | None = None) -> GpuRequest:
        """The request of a pod, by default of ours as filter saw it."""
        rejections = dict(self.cluster.state.rejections)
        if pod is not None:
            uid = pod.metadata.uid
            request = self.cluster.state.request(pod)
            rejections = {uid: Rejection(pod, request, frozenset({"n0"}), seen=0)}
        (found,) = self.requests.now(rejections).values()
        return found


@pytest.fixture
def rejected() -> Rejected:
    return Rejected()


def test_a_request_is_read_once_while_nothing_changes(rejected: Rejected) -> None:
    first = rejected.now()
    rejected.cluster.clock.advance(60)
    assert rejected.now() is first
    assert first == rejected.cluster.state.request(rejected.pod)


def test_a_hold_that_appears_or_ends_changes_the_request(rejected: Rejected) -> None:
    rejected.cluster.create(a_pod().asks(4).of("alice").kept("n0", "GPU-n0-0").at(50))
    held = rejected.now()
    assert held.hold is not None
    assert held.hold.devices == ("GPU-n0-0",)
    rejected.cluster.change("p", names.HOLD, None)
    assert rejected.now().hold is None


def _begin(cluster: Cluster) -> None:
    cluster.book(a_booking(count=4, start=cluster.clock.now(), end=cluster.clock.now() + timedelta(days=1)))


def _change_the_model(cluster: Cluster) -> None:
    cluster.change("p", names.MODEL, A6000)


@pytest.mark.parametrize(("happen", "models"), [(_begin, {A100}), (_change_the_model, {A6000})])
def test_the_present_request_of_the_pod_and_its_booking_counts(
    rejected: Rejected, happen: Callable[[Cluster], None], models: set[str]
) -> None:
    assert rejected.now().models == set()
    happen(rejected.cluster)
    assert rejected.now().models == models


def test_a_booking_counts_from_its_start_up_to_but_not_at_its_end(rejected: Rejected) -> None:
    now = rejected.cluster.clock.now()
    hour = timedelta(hours=1)
    rejected.cluster.book(a_booking(count=4, start=now + hour, end=now + 2 * hour))
    found = []
    for seconds in (0, 3599.5, 0.5, 3599.5, 0.5):
        rejected.cluster.clock.advance(seconds)
        found.append(rejected.now().models)
    assert found == [set(), set(), {A100}, {A100}, set()]


def test_the_pod_that_filter_saw_counts_where_the_scheduler_is_ahead_of_our_watch(rejected: Rejected) -> None:
    newer = a_pod().asks(4).of("alice").wants(A6000).at(9999).obj
    assert rejected.now(newer).models == {A6000}


def test_the_pod_of_our_watch_counts_where_the_watch_is_ahead_of_the_scheduler(rejected: Rejected) -> None:
    older = rejected.pod
    rejected.cluster.change("p", names.MODEL, A6000)
    assert rejected.now(older).models == {A6000}


def test_an_unreadable_amount_keeps_the_request_that_filter_saw(rejected: Rejected) -> None:
    before = rejected.now()
    raw = a_pod().asks(4).of("alice").at(99).raw
    raw["spec"] = {
        "schedulerName": names.SCHEDULER_NAME,
        "containers": [{"name": "m", "resources": {"limits": {names.GPU_RESOURCE: "x"}}}],
    }
    (found,) = rejected.requests.now(
        {"uid-p": Rejection(msgspec.convert(raw, Pod), before, frozenset(), seen=0)}
    ).values()
    assert found is before
