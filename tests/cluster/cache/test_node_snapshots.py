"""All nodes of a cache at one instant, and the state of each agent then."""

from datetime import timedelta

import pytest

from cluster.cache import ClusterCache, NodeSnapshots
from cluster.decide.booking_plan.supply import GONE_AFTER
from cluster.decide.ledger.liveness import UNRESPONSIVE_AFTER
from cluster.fake.clock import FakeClock
from cluster.kube.resources import LEASES, NODES, PODS
from tests.fakes.objects import EPOCH, a100, a_lease, a_node, a_pod


def agents(found: NodeSnapshots) -> dict[str, str]:
    return {name: agent for name, (_, agent) in found.items()}


class Nodes:
    """A cache of nodes whose agents have shown signs of life, or none."""

    def __init__(self, *names: str) -> None:
        self.clock = FakeClock(EPOCH)
        self.cache = ClusterCache(self.clock)
        for name in names:
            self.cache.of(NODES).upsert(a_node(name, a100(0, name)))

    def renew(self, node: str, *, ago: float = 0, version: int = 1, stopping: bool = False) -> None:
        renewed = self.clock.now() - timedelta(seconds=ago)
        self.cache.of(LEASES).upsert(a_lease(node, renewed=renewed, version=version, stopping=stopping))


@pytest.mark.parametrize(
    ("ago", "state"),
    [
        (0.0, "alive"),
        (UNRESPONSIVE_AFTER - 1, "alive"),
        (UNRESPONSIVE_AFTER, "unresponsive"),
        (GONE_AFTER, "unresponsive"),
    ],
)
def test_l6_an_agent_is_alive_until_its_last_renewal_is_too_long_ago(ago: float, state: str) -> None:
    nodes = Nodes("n0")
    nodes.renew("n0", ago=ago)
    assert agents(nodes.cache.node_snapshots()) == {"n0": state}


def test_each_node_has_its_own_agents_state() -> None:
    nodes = Nodes("alive", "dead", "released", "new")
    nodes.renew("alive")
    nodes.renew("dead", ago=UNRESPONSIVE_AFTER)
    nodes.renew("released", stopping=True)
    assert agents(nodes.cache.node_snapshots()) == {
        "alive": "alive",
        "dead": "unresponsive",
        "released": "stopping",
        "new": "unseen",
    }


def test_later_leases_do_not_change_a_snapshot() -> None:
    nodes = Nodes("n0")
    nodes.renew("n0", ago=UNRESPONSIVE_AFTER)
    before = nodes.cache.node_snapshots()
    nodes.renew("n0", version=2)
    assert (agents(before), agents(nodes.cache.node_snapshots())) == ({"n0": "unresponsive"}, {"n0": "alive"})
    nodes.cache.of(LEASES).remove(a_lease("n0", version=3))
    assert agents(before) == {"n0": "unresponsive"}


def test_nodes_added_changed_or_removed_later_do_not_change_a_snapshot() -> None:
    nodes = Nodes("n0", "n1")
    before = nodes.cache.node_snapshots()
    nodes.cache.of(NODES).upsert(a_node("n2", a100(0, "n2")))
    nodes.cache.of(NODES).upsert(a_node("n0", version=2))
    nodes.cache.of(NODES).remove(a_node("n1", version=2))
    nodes.cache.of(PODS).upsert(a_pod().asks(1).on("n1", {"main": ("GPU-n1-0",)}).obj)
    assert {name: len(view.devices) for name, view in before.views.items()} == {"n0": 1, "n1": 1}
    assert not any(view.holdings for view in before.views.values())


def test_a_lease_without_a_known_node_makes_no_node() -> None:
    nodes = Nodes("n0")
    nodes.renew("gone", ago=GONE_AFTER)
    found = nodes.cache.node_snapshots()
    with pytest.raises(KeyError, match="gone"):
        found["gone"]
    assert ("gone" in found, found.get("gone"), len(found), list(found)) == (False, None, 1, ["n0"])
    assert found.quiet(GONE_AFTER) == frozenset()


@pytest.mark.parametrize(
    ("seconds", "quiet"),
    [
        pytest.param(0, {"now", "before", "released"}, id="at any time"),
        pytest.param(99.5, {"before", "released"}, id="just less than they were"),
        pytest.param(100, {"before", "released"}, id="exactly so long"),
        pytest.param(100.5, set(), id="longer than any"),
    ],
)
def test_a_node_is_quiet_since_its_agent_s_last_renewal_whether_or_not_it_released_the_lease(
    seconds: float, quiet: set[str]
) -> None:
    """A node whose agent never had a Lease is not quiet: it is unknown since when."""
    nodes = Nodes("now", "before", "released", "never")
    nodes.renew("now")
    nodes.renew("before", ago=100)
    nodes.renew("released", ago=100, stopping=True)
    assert nodes.cache.node_snapshots().quiet(seconds) == quiet
