"""Giving a notice and withdrawing it: one write and one Event each, whatever the watches show."""

import pytest

from booking.controller.reclaimer.holds.notices import WITHDRAWN, Notices, message
from cluster import event_reasons, names
from cluster.kube.errors import Conflict, NotFound, Refusal, Request, ServerError
from cluster.kube.resources import PODS
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, a_pod

FOR_ALICE = message(a_pod("a").of("alice").asks(1).obj, EPOCH)
FOR_CAROL = message(a_pod("c").of("carol").asks(1).obj, EPOCH)


class Given:
    """Bob's pod ``b`` runs; notices are written as by the reclaimer."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.cluster.add_node()
        self.cluster.opportunist("b", 0)
        self.events: list[tuple[str, str, str]] = []
        self.restart()

    def restart(self) -> None:
        self.notices = Notices(
            self.cluster.kube,
            self.cluster.clock,
            lambda pod, reason, text: self.events.append((pod.metadata.name, reason, text)),
        )

    @property
    def pod(self) -> Pod:
        return self.cluster.pod("b")

    @property
    def written(self) -> int:
        """How many times the pod was written."""
        return sum(call.verb == "PATCH" for call in self.cluster.kube.calls)


@pytest.fixture
def given() -> Given:
    return Given()


def test_a_notice_is_written_with_an_event_and_returned_on_the_pod(given: Given) -> None:
    after = given.notices.give(given.pod, FOR_ALICE)
    assert after == given.pod
    assert after.metadata.annotation(names.NOTICE) == FOR_ALICE
    assert given.events == [("b", event_reasons.EVICTION_NOTICE, FOR_ALICE)]


@pytest.mark.parametrize("shown", [False, True], ids=["the watch lags behind", "the watch shows it"])
def test_the_same_notice_is_written_once(given: Given, *, shown: bool) -> None:
    before = given.pod
    first = given.notices.give(before, FOR_ALICE)
    for _ in range(3):
        assert given.notices.give(given.pod if shown else before, FOR_ALICE) == first
    assert (given.written, len(given.events)) == (1, 1)


def test_a_notice_for_another_pod_replaces_the_first_and_has_its_own_event(given: Given) -> None:
    before = given.pod
    given.notices.give(before, FOR_ALICE)
    given.notices.give(before, FOR_CAROL)
    assert given.pod.metadata.annotation(names.NOTICE) == FOR_CAROL
    assert [text for _, _, text in given.events] == [FOR_ALICE, FOR_CAROL]


@pytest.mark.parametrize("answer", ["refused", "lost"])
def test_an_unanswered_notice_is_given_again_and_announced_once_it_is_written(
    given: Given, answer: str
) -> None:
    before = given.pod
    if answer == "refused":
        given.cluster.kube.fail("PATCH", ServerError(Request("PATCH", "pods"), Refusal(code=500)))
    else:
        given.cluster.kube.lose("PATCH")
    with pytest.raises(Exception, match="PATCH"):
        given.notices.give(before, FOR_ALICE)
    assert given.events == []
    given.notices.give(before, FOR_ALICE)
    assert given.pod.metadata.annotation(names.NOTICE) == FOR_ALICE
    assert len(given.events) == 1


@pytest.mark.parametrize("again", [False, True], ids=["gone", "created again under the name"])
def test_a_notice_is_written_only_on_the_pod_with_this_uid(given: Given, *, again: bool) -> None:
    before = given.pod
    given.cluster.gone("b")
    if again:
        raw = a_pod("b").of("bob").asks(1)
        given.cluster.create(raw, {"metadata": {"uid": "another"}})
    with pytest.raises((Conflict, NotFound)):
        given.notices.give(before, FOR_ALICE)
    assert given.events == []


def test_a_withdrawal_is_written_and_announced_once_while_the_watch_lags_behind(given: Given) -> None:
    notified = given.notices.give(given.pod, FOR_ALICE)
    assert given.notices.take_back(notified)
    assert not given.notices.take_back(notified)
    assert given.pod.metadata.annotation(names.NOTICE) is None
    assert given.events[1:] == [("b", event_reasons.EVICTION_WITHDRAWN, WITHDRAWN)]
    given.cluster.clock.advance(1)
    assert given.notices.take_back(notified), "a second later its effect would be seen: it is sent again"


def test_after_a_withdrawal_the_same_notice_is_given_again(given: Given) -> None:
    before = given.pod
    given.notices.take_back(given.notices.give(before, FOR_ALICE))
    given.notices.give(before, FOR_ALICE)
    assert given.pod.metadata.annotation(names.NOTICE) == FOR_ALICE
    assert [reason for _, reason, _ in given.events] == [
        event_reasons.EVICTION_NOTICE,
        event_reasons.EVICTION_WITHDRAWN,
        event_reasons.EVICTION_NOTICE,
    ]


def test_the_record_of_a_notice_is_dropped_with_its_pod(given: Given) -> None:
    before = given.pod
    given.notices.give(before, FOR_ALICE)
    given.notices.forget_all_but(frozenset({before.metadata.uid}))
    given.notices.give(before, FOR_ALICE)
    assert given.written == 1
    given.notices.forget_all_but(frozenset())
    given.notices.give(before, FOR_ALICE)
    assert len(given.events) == 2


def stale(given: Given) -> list[str]:
    return [pod.metadata.name for pod in given.notices.stale(given.cluster.snapshot())]


def test_a_notice_is_stale_when_no_hold_needs_the_pod_to_leave(given: Given) -> None:
    given.cluster.book()
    given.cluster.waiting("a")
    hold = Hold(node="n0", devices=("GPU-n0-0",), victims=(given.pod.metadata.uid,), at=EPOCH)
    given.cluster.hold("a", hold)
    given.notices.give(given.pod, FOR_ALICE)
    assert stale(given) == []
    given.cluster.annotate("a", names.HOLD, None)
    assert stale(given) == ["b"]


@pytest.mark.parametrize("ended", [False, True], ids=["without a notice", "ended"])
def test_no_notice_is_withdrawn_from_a_pod_that_has_none_or_has_ended(given: Given, *, ended: bool) -> None:
    if ended:
        given.notices.give(given.pod, FOR_ALICE)
        assert stale(given) == ["b"]
        given.cluster.kube.finish(PODS, "b", namespace="default", phase="Succeeded")
    assert stale(given) == []
