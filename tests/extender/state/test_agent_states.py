"""Which agents are checked again: those with a changed Lease or a rejected pod, and those that are due."""

import pytest

from cluster.decide.ledger.liveness import UNRESPONSIVE_AFTER
from cluster.decide.serving import MISSED_AFTER
from extender.state.agent_states import Agents
from tests.extender.cluster import Cluster
from tests.fakes.objects import a_lease, a_pod


class Watched:
    """Two nodes, and the agents of which their states are known."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        for node in ("n0", "n1"):
            self.cluster.add_node(node)
        self.agents = Agents(self.cluster.state)
        assert self.agents.changed(0) is None, "at first all of them are checked"
        self.states()

    def states(self, *nodes: str) -> dict[str, str]:
        now = self.cluster.clock.monotonic()
        return {node: self.agents.state(self.cluster.view(node), now) for node in nodes or ("n0", "n1")}

    def changed(self, seconds: float = 0) -> list[str]:
        """Some time later."""
        self.cluster.clock.advance(seconds)
        found = self.agents.changed(self.cluster.clock.monotonic())
        assert found is not None
        return sorted(found)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_an_agent_is_checked_when_it_would_become_unresponsive_without_any_event(watched: Watched) -> None:
    assert watched.changed(UNRESPONSIVE_AFTER) == ["n0", "n1"]
    assert watched.states() == {"n0": "unresponsive", "n1": "unresponsive"}
    assert watched.changed(UNRESPONSIVE_AFTER) == [], "it stays so until it is heard of"


def test_a_renewal_only_postpones_the_next_check(watched: Watched) -> None:
    for _ in range(10):
        watched.cluster.clock.advance(10)
        watched.cluster.renew("n0")
        watched.cluster.renew("n1")
    checked = watched.changed()
    assert checked == ["n0", "n1"], "once, since it was due by what was known before"
    assert watched.states() == {"n0": "alive", "n1": "alive"}
    assert watched.changed(UNRESPONSIVE_AFTER - 1) == []
    assert watched.changed(1) == ["n0", "n1"]


def test_an_agent_that_responds_again_is_checked_at_once(watched: Watched) -> None:
    for _ in range(8):
        watched.cluster.clock.advance(10)
        watched.cluster.renew("n0")
    watched.changed()
    assert watched.states() == {"n0": "alive", "n1": "unresponsive"}
    watched.cluster.renew("n1")
    assert watched.changed() == ["n1"]
    assert watched.states("n1") == {"n1": "alive"}


def test_all_agents_are_checked_for_missed_renewals_after_a_time_without_any(
    watched: Watched,
) -> None:
    watched.cluster.clock.advance(MISSED_AFTER + 1)
    watched.cluster.renew("n1")
    assert watched.changed() == ["n0", "n1"]
    assert watched.states() == {"n0": "unconfirmed", "n1": "alive"}


@pytest.mark.parametrize("stopping", [True, False])
def test_an_agent_that_stops_or_goes_is_checked_at_once(watched: Watched, *, stopping: bool) -> None:
    lease = a_lease("n0", renewed=watched.cluster.clock.now(), version=99, stopping=True)
    if stopping:
        watched.cluster.leases.upsert(lease)
    else:
        watched.cluster.leases.remove(lease)
    assert watched.changed() == ["n0"]
    assert watched.states("n0") == {"n0": "stopping" if stopping else "unseen"}


def test_a_due_check_is_not_lost_when_its_state_is_not_read(watched: Watched) -> None:
    """A node that is due is reported; it is entered again only when its state is read."""
    assert watched.changed(UNRESPONSIVE_AFTER - 0.0005) == ["n0", "n1"], "a little early"
    assert watched.states() == {"n0": "alive", "n1": "alive"}
    assert watched.changed(0.0005) == ["n0", "n1"]
    assert watched.states() == {"n0": "unresponsive", "n1": "unresponsive"}


def test_the_end_of_a_pause_after_a_rejection_is_noticed_without_an_event(watched: Watched) -> None:
    cluster = watched.cluster
    cluster.create(a_pod().asks(1).on("n0", {"main": ("GPU-n0-0",)}))
    cluster.reject()
    assert watched.changed() == ["n0"]
    assert watched.states("n0") == {"n0": "kubelet-rejecting"}
    cluster.clock.advance(0.5)
    cluster.renew("n0")
    assert watched.changed() == []
    assert watched.changed(0.5) == ["n0"]
