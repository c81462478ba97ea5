"""Binds whose answer was lost, that are repeated or refused: what is kept, and what is taken back."""

import threading
from datetime import timedelta
from typing import Any

import pytest

from cluster import names
from cluster.decide.ledger import WHOLE
from cluster.fake.server import FakeKube
from cluster.kube.errors import Refusal, Request, ServerError, Unreachable, Unsent, refused
from cluster.objects.pods import Pod
from extender.binding.assumed_binds import ASK_AFTER, AssumedBinds
from extender.binding.bind import Bind
from extender.binding.bind_decision import NOT_LEADING
from extender.leadership import always
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, A6000, PodBuilder, a100, a_booking, a_pod

ANYTHING = Request("POST", "/anything")


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.add_node("n0")
    made.add_node("n1")
    return made


def unanswered(cluster: Cluster, builder: PodBuilder | None = None) -> Pod:
    """A pod whose bind got no answer: it may have happened, or happen yet. By default of one GPU."""
    pod = cluster.create(builder or a_pod().asks(1))
    cluster.ask(pod)
    cluster.kube.fail("POST", Unreachable(ANYTHING, "timed out"))
    cluster.bind_to(pod)
    return pod


@pytest.mark.parametrize(
    "lost", [Unreachable(ANYTHING, "timed out"), ServerError(ANYTHING, Refusal(code=504))]
)
def test_the_decision_is_kept_after_a_lost_answer_and_posted_again_by_a_repeat(
    cluster: Cluster, lost: Unreachable | ServerError
) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.kube.fail("POST", lost)

    assert cluster.bind_to(pod) == (
        f"{names.NOT_NOW} The API server has not said whether the pod is bound; the same bind is tried again."
    )
    assert cluster.view().held == {"GPU-n0-0": WHOLE}

    assert cluster.bind_to(pod) == ""
    assert cluster.given() == {"main": ("GPU-n0-0",)}


def test_l6_a_lost_bind_is_not_repeated_to_a_node_whose_agent_has_become_unresponsive(
    cluster: Cluster,
) -> None:
    pod = unanswered(cluster)
    cluster.clock.advance(76)

    assert (
        cluster.bind_to(pod)
        == "The pod no longer fits on node n0: the GPU agent of the node is unresponsive."
    )

    assert cluster.bindings() == ["n0"]
    assert cluster.view().held == {"GPU-n0-0": WHOLE}


def test_a_repeat_for_another_node_does_not_overtake_an_unresolved_bind(cluster: Cluster) -> None:
    pod = unanswered(cluster)

    error = cluster.bind_to(pod, "n1")

    assert error == f"{names.NOT_NOW} An earlier bind of the pod to node n0 is not resolved yet."
    assert cluster.bindings() == ["n0"]


def test_repeating_a_successful_bind_succeeds_without_another_binding(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.bind_to(pod)

    assert cluster.bind_to(pod) == ""

    assert cluster.bindings() == ["n0"]


def test_repeating_a_successful_bind_for_another_node_is_refused_with_the_first_node_s_name(
    cluster: Cluster,
) -> None:
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


def test_l1_a_former_leader_keeps_the_devices_of_what_it_posted(cluster: Cluster) -> None:
    pod = unanswered(cluster)
    cluster.leading = False

    assert cluster.bind_to(pod) == NOT_LEADING

    assert cluster.bindings() == ["n0"]
    assert cluster.view().held == {"GPU-n0-0": WHOLE}


def test_l1_a_refused_repeat_does_not_free_devices_that_the_first_attempt_may_still_take(
    cluster: Cluster,
) -> None:
    pod = unanswered(cluster)
    cluster.kube.fail("POST", refused(ANYTHING, Refusal(code=403, reason="Forbidden")))

    assert cluster.bind_to(pod) == "The API server refused the Binding (403 Forbidden)."

    assert cluster.view().held == {"GPU-n0-0": WHOLE}


def test_l1_a_repeat_with_a_conflict_frees_nothing_while_the_pod_is_unchanged(
    cluster: Cluster,
) -> None:
    pod = unanswered(cluster)
    cluster.kube.fail("POST", refused(ANYTHING, Refusal(code=409, reason="Conflict")))

    assert cluster.bind_to(pod) != ""

    assert cluster.view().held == {"GPU-n0-0": WHOLE}


def test_an_unforeseen_failure_before_anything_is_sent_takes_the_decision_back(cluster: Cluster) -> None:
    def broken() -> bool:
        raise RuntimeError("nobody has thought of this")

    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    cluster.bind = Bind(cluster.kube, cluster.state, cluster.clock, cluster.keyed_lock, leads=broken)

    with pytest.raises(RuntimeError):
        cluster.bind_to(pod)

    assert cluster.view().held == {}


def test_l1_a_repeat_that_was_never_sent_frees_nothing(cluster: Cluster) -> None:
    pod = unanswered(cluster)
    cluster.kube.fail("POST", Unsent(ANYTHING, "connection refused"))

    assert cluster.bind_to(pod).startswith(names.NOT_NOW)

    assert cluster.view().held == {"GPU-n0-0": WHOLE}


class Roomy(FakeKube):
    """An API server that lets others use the cache while it is asked."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.clock)
        self._state = cluster.state
        self.visits = 0

    def get(self, *args: Any, **named: Any) -> Any:
        """Let them, then answer."""
        self._visit()
        return super().get(*args, **named)

    def create_subresource(self, *args: Any, **named: Any) -> None:
        """Let them, then do it."""
        self._visit()
        super().create_subresource(*args, **named)

    def _visit(self) -> None:
        visitor = threading.Thread(target=self._state.places, daemon=True)
        visitor.start()
        visitor.join(60)
        assert not visitor.is_alive()
        self.visits += 1


def test_the_cache_is_not_locked_while_the_api_server_is_asked(cluster: Cluster) -> None:
    cluster.kube = kube = Roomy(cluster)
    cluster.bind = Bind(kube, cluster.state, cluster.clock, cluster.keyed_lock, leads=always)
    cluster.assumed_binds = AssumedBinds(kube, cluster.state, cluster.clock, cluster.keyed_lock)
    pod = cluster.create(a_pod().asks(1))
    for error in (Unreachable(ANYTHING, "timed out"), refused(ANYTHING, Refusal(code=409))):
        kube.fail("POST", error)
        cluster.bind_to(pod)
    cluster.assumed_binds.reconcile()
    cluster.clock.advance(ASK_AFTER)
    cluster.assumed_binds.reconcile()

    assert cluster.bind_to(pod) == ""
    # Read at first, posted in vain twice and read before and after the second, settled, read and posted.
    assert kube.visits == 8


@pytest.mark.parametrize(
    "waiting",
    [a_pod().asks(4).wants(A100, A6000), a_pod().asks(4).kept("n0", *(f"GPU-n0-{i}" for i in range(4)))],
)
def test_a_pod_is_not_rejected_because_of_devices_it_was_given_itself(
    cluster: Cluster, waiting: PodBuilder
) -> None:
    pod = unanswered(cluster, waiting)

    assert cluster.ask(pod).node_names == ["n0"]
    assert cluster.ask(cluster.create(a_pod("q").asks(1))).node_names == []

    assert cluster.bind_to(pod) == ""


def test_a_booked_pod_with_an_unresolved_bind_is_still_offered_its_node(cluster: Cluster) -> None:
    cluster.book(
        a_booking(
            count=4,
            topology="single-node",
            start=cluster.clock.now(),
            end=cluster.clock.now() + timedelta(days=1),
            model=A100,
            places=[{"node": "n0", "count": 4}],
        )
    )
    cluster.add_node("n0", *(a100(index) for index in range(4)))
    pod = unanswered(cluster, a_pod().of("alice").asks(4))

    assert cluster.ask(pod, "n0", "n1").node_names == ["n0"]
    assert cluster.bind_to(pod) == ""
