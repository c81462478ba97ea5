"""The last check before a pod loses work: nothing that has changed since the decision is overlooked."""

from collections.abc import Callable, Iterator
from itertools import repeat

import pytest

from booking.controller.reclaimer.api_failures import ApiFailures
from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.evictor import DECIDED_WITHIN
from booking.controller.reclaimer.executor import in_turn
from booking.controller.reclaimer.holds.revalidation import Revalidation
from booking.controller.reclaimer.snapshot import take
from cluster import names
from cluster.fake.merging import merged
from cluster.kube.errors import ApiError
from cluster.kube.resources import BOOKINGS, PODS
from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH

HOLD = Hold(node="n0", devices=("GPU-n0-0", "GPU-n0-1"), victims=("uid-b0", "uid-b1"), at=EPOCH)
OTHER = Hold(node="n0", devices=("GPU-n0-2", "GPU-n0-3"), victims=("uid-b2", "uid-b3"), at=EPOCH)


class Checked:
    """Alice's pod with its hold on two devices of bob's, as the reclaimer checks it."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.cluster.add_node()
        self.cluster.fill()
        self.cluster.book(count=2)
        self.cluster.waiting("a", 2)
        self.cluster.hold("a", HOLD)
        self.cluster.sync()
        self.may_act = True
        self.meanwhile: Iterator[Callable[[], object]] = iter(())
        """What happens while the Bookings are read, one thing each time."""
        self.reads = 0
        """How often the Bookings were read."""
        self.context = ReclaimerContext(
            kube=self.cluster.kube,
            clock=self.cluster.clock,
            evictor=self.cluster.evictor,
            write_event=lambda *_: None,
            metrics=self.cluster.metrics,
            failures=ApiFailures(self.cluster.metrics),
            executor=in_turn,
            read_bookings=self._read_bookings,
            instant=lambda: take(self.cluster.cache, self.cluster.clock),
            seen=self.cluster.cache.pods.get,
            awaited=frozenset().__contains__,
            turn_problem=lambda *_: None,
            taken=lambda _: None,
            may_act=lambda: self.may_act,
        )

    def _read_bookings(self) -> None:
        self.reads += 1
        next(self.meanwhile, lambda: None)()
        found = self.cluster.kube.list(BOOKINGS)
        self.cluster.cache.of(BOOKINGS).replace(found.items, found.resource_version)

    def revalidation(self, *, read: float | None = None) -> Revalidation:
        found = Revalidation(self.context, self.cluster.pod("a"), HOLD, read=read)
        self._read_before = self._gets()
        return found

    def pod_reads(self) -> int:
        """How often the pod was read since there was a check."""
        return self._gets() - self._read_before

    def _gets(self) -> int:
        return sum(call.verb == "GET" for call in self.cluster.kube.calls)


@pytest.fixture
def checked() -> Checked:
    return Checked()


def test_a_hold_that_the_api_server_still_has_is_valid_as_of_now(checked: Checked) -> None:
    check = checked.revalidation()
    assert check.valid_at is None
    assert check.is_valid()
    assert check.valid_at == checked.cluster.clock.monotonic()
    assert (checked.reads, checked.pod_reads()) == (1, 1)


def test_a_hold_that_the_cache_does_not_show_yet_is_not_valid_and_costs_no_request(checked: Checked) -> None:
    checked.cluster.cache.of(PODS).replace([], "9999")
    assert not checked.revalidation().is_valid()
    assert (checked.reads, checked.pod_reads()) == (0, 0)


def recreate(cluster: FakeCluster) -> None:
    raw = cluster.kube.raw(PODS, "a", namespace="default")
    cluster.gone("a")
    cluster.kube.put(PODS, merged(raw, {"metadata": {"uid": "uid-2"}}))


def begin_to_delete(cluster: FakeCluster) -> None:
    raw = cluster.kube.raw(PODS, "a", namespace="default")
    cluster.kube.put(PODS, merged(raw, {"metadata": {"deletionTimestamp": "2026-11-23T09:00:00Z"}}))


OVERTAKEN: dict[str, Callable[[FakeCluster], object]] = {
    "the pod is bound": lambda cluster: cluster.bind("a", 0, 1),
    "the pod is gone": lambda cluster: cluster.gone("a"),
    "the pod is terminating": begin_to_delete,
    "the hold is dropped": lambda cluster: cluster.annotate("a", names.HOLD, None),
    "another hold is written": lambda cluster: cluster.hold("a", OTHER),
    "another pod has the name": recreate,
}


@pytest.mark.parametrize("change", OVERTAKEN.values(), ids=OVERTAKEN)
def test_a_change_that_only_the_api_server_knows_makes_the_hold_invalid(
    checked: Checked, change: Callable[[FakeCluster], object]
) -> None:
    check = checked.revalidation()
    change(checked.cluster)
    assert not check.is_valid()
    assert check.valid_at is None


def test_a_release_that_only_the_api_server_knows_makes_the_hold_invalid(checked: Checked) -> None:
    check = checked.revalidation()
    checked.cluster.end_booking()
    assert not check.is_valid()


def test_a_cache_that_shows_another_hold_after_the_check_makes_it_invalid(checked: Checked) -> None:
    check = checked.revalidation()

    def only_the_cache_changes() -> None:
        checked.cluster.hold("a", OTHER)
        checked.cluster.sync()
        checked.cluster.hold("a", HOLD)

    checked.meanwhile = iter([only_the_cache_changes])
    assert not check.is_valid()


def test_a_pod_that_was_read_too_slowly_proves_nothing(checked: Checked) -> None:
    check = checked.revalidation()
    checked.cluster.kube.before("GET", lambda: checked.cluster.clock.advance(DECIDED_WITHIN + 0.1))
    assert not check.is_valid()


def test_one_check_serves_all_victims_until_it_is_too_old(checked: Checked) -> None:
    check = checked.revalidation()
    assert [check.is_valid(), check.is_valid()] == [True, True]
    assert (checked.reads, checked.pod_reads()) == (1, 1)
    checked.cluster.clock.advance(DECIDED_WITHIN)
    assert check.is_valid()
    assert checked.reads == 1
    checked.cluster.clock.advance(0.1)
    assert check.is_valid()
    assert (checked.reads, checked.pod_reads()) == (2, 2)


def test_bookings_that_were_read_too_slowly_are_read_again(checked: Checked) -> None:
    check = checked.revalidation()
    checked.meanwhile = iter([lambda: checked.cluster.clock.advance(DECIDED_WITHIN + 0.1)])
    assert check.is_valid()
    assert checked.reads == 2


def test_a_check_that_is_always_too_slow_is_never_valid(checked: Checked) -> None:
    check = checked.revalidation()
    checked.meanwhile = repeat(lambda: checked.cluster.clock.advance(DECIDED_WITHIN + 0.1))
    assert not check.is_valid()


def test_a_process_that_loses_the_lead_after_its_check_evicts_no_more(checked: Checked) -> None:
    check = checked.revalidation()
    assert check.is_valid()
    checked.may_act = False
    assert not check.is_valid()


def test_a_pod_that_the_api_server_has_just_shown_is_not_read_again(checked: Checked) -> None:
    check = checked.revalidation(read=checked.cluster.clock.monotonic())
    assert check.is_valid()
    assert (checked.reads, checked.pod_reads()) == (1, 0)


def test_a_pod_that_was_shown_too_long_ago_is_read_again(checked: Checked) -> None:
    check = checked.revalidation(read=checked.cluster.clock.monotonic())
    checked.cluster.clock.advance(DECIDED_WITHIN + 0.1)
    assert check.is_valid()
    assert checked.pod_reads() == 1


def test_reading_the_bookings_can_begin_before_the_check_and_is_done_once(checked: Checked) -> None:
    check = checked.revalidation()
    check.begin()
    check.begin()
    assert checked.reads == 1
    assert check.is_valid()
    assert checked.reads == 1


def test_an_api_server_that_cannot_be_asked_is_an_error_and_no_answer(checked: Checked) -> None:
    check = checked.revalidation()
    checked.cluster.kube.down = True
    with pytest.raises(ApiError):
        check.is_valid()
    assert check.valid_at is None
