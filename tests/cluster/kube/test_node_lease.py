import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from cluster import names
from cluster.fake.clock import START, FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import ApiError, Conflict, NotFound, Refusal, Request, Unreachable, refused
from cluster.kube.lease_writer import micro_time
from cluster.kube.node_lease import LeaseRenewer, always
from cluster.kube.resources import LEASES, NODES
from cluster.objects.nodes import Lease

NAME = names.node_lease("n0")


class World:
    """One node's Lease and the agents that want it."""

    def __init__(self) -> None:
        self.clock = FakeClock(self_advancing=True)
        self.kube = FakeKube(self.clock)

    def agent(self, holder: str, *, serves: Callable[[], bool] = always) -> LeaseRenewer:
        return LeaseRenewer(self.kube, self.clock, name=NAME, holder=holder, serves=serves)

    @property
    def lease(self) -> Lease:
        return self.kube.get(LEASES, NAME, namespace=names.NAMESPACE)

    @property
    def is_released(self) -> bool:
        return self.lease.metadata.annotation(names.STOPPING) is not None


@pytest.fixture
def world() -> World:
    return World()


def test_a_missing_lease_is_created(world: World) -> None:
    assert world.agent("a").renew()
    spec = world.lease.spec
    assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("a", 30, 0)
    assert spec.renew_time == spec.acquire_time == START


def test_the_lease_is_owned_by_its_node(world: World) -> None:
    node = world.kube.put(NODES, {"metadata": {"name": "n0"}})
    agent = LeaseRenewer(world.kube, world.clock, name=NAME, holder="a", node="n0")
    agent.renew()
    (owner,) = world.lease.metadata.owner_references or ()
    assert (owner.kind, owner.name, owner.uid) == ("Node", "n0", node.metadata.uid)


def test_no_lease_is_created_again_for_a_deleted_node(world: World) -> None:
    agent = LeaseRenewer(world.kube, world.clock, name=NAME, holder="a", node="n0")
    with pytest.raises(NotFound):
        agent.renew()
    assert not world.kube.list(LEASES).items


@pytest.mark.parametrize("holder", ["a", "the agent before"])
def test_an_older_lease_without_an_owner_gets_its_node_as_owner(world: World, holder: str) -> None:
    node = world.kube.put(NODES, {"metadata": {"name": "n0"}})
    world.agent(holder).renew()
    assert not world.lease.metadata.owner_references
    assert LeaseRenewer(world.kube, world.clock, name=NAME, holder="a", node="n0").renew()
    (owner,) = world.lease.metadata.owner_references or ()
    assert owner.uid == node.metadata.uid
    assert world.lease.spec.holder_identity == "a"


def test_a_lease_is_taken_over_without_an_owner_where_none_may_be_named(world: World) -> None:
    world.kube.put(NODES, {"metadata": {"name": "n0"}})
    world.agent("the agent before").renew()
    refusal = Refusal(code=403, reason="Forbidden", message="cannot set an ownerRef")
    world.kube.fail("PATCH", refused(Request("PATCH", "/"), refusal))
    assert LeaseRenewer(world.kube, world.clock, name=NAME, holder="a", node="n0").renew()
    assert world.lease.spec.holder_identity == "a"
    assert not world.lease.metadata.owner_references


def test_where_an_owner_may_not_be_set_the_lease_has_none(world: World) -> None:
    world.kube.put(NODES, {"metadata": {"name": "n0"}})
    refusal = Refusal(code=403, reason="Forbidden", message="cannot set an ownerRef")
    world.kube.fail("POST", refused(Request("POST", "/"), refusal))
    agent = LeaseRenewer(world.kube, world.clock, name=NAME, holder="a", node="n0")
    assert agent.renew()
    assert not world.lease.metadata.owner_references


def test_a_renewal_changes_the_time_alone_in_one_request(world: World) -> None:
    agent = world.agent("a")
    agent.renew()
    calls_before = len(world.kube.calls)
    world.clock.advance(10)
    assert agent.renew()
    assert len(world.kube.calls) == calls_before + 1
    assert world.lease.spec.renew_time == START + timedelta(seconds=10)
    assert world.lease.spec.acquire_time == START


def test_the_age_of_the_lease_is_that_of_the_newest_renewal(world: World) -> None:
    agent = world.agent("a")
    assert agent.age() is None
    agent.renew()
    world.clock.advance(7)
    assert agent.age() == 7


def test_a_starting_agent_takes_the_lease_over_at_once(world: World) -> None:
    world.agent("a").renew()
    world.clock.advance(1)
    assert world.agent("b").renew()
    assert (world.lease.spec.holder_identity, world.lease.spec.lease_transitions) == ("b", 1)


def test_the_older_agent_does_not_take_it_back(world: World) -> None:
    older, newer = world.agent("a"), world.agent("b")
    older.renew()
    newer.renew()
    with pytest.raises(Conflict):
        older.renew()
    for _ in range(6):
        world.clock.advance(10)
        newer.renew()
        assert not older.renew()
    assert older.age() is None
    assert world.lease.spec.holder_identity == "b"


def test_the_older_agent_takes_it_back_when_the_newer_stops_renewing(world: World) -> None:
    older, newer = world.agent("a"), world.agent("b")
    older.renew()
    newer.renew()
    with pytest.raises(Conflict):
        older.renew()
    assert not older.renew()
    world.clock.advance(29)
    assert not older.renew()
    world.clock.advance(1)
    assert older.renew()
    assert world.lease.spec.holder_identity == "a"


def test_the_older_agent_takes_it_back_when_the_newer_releases_it(world: World) -> None:
    older, newer = world.agent("a"), world.agent("b")
    older.renew()
    newer.renew()
    newer.release_lease()
    with pytest.raises(Conflict):
        older.renew()
    assert older.renew()
    assert not world.is_released


def test_a_release_is_written_on_the_agent_s_own_lease(world: World) -> None:
    agent = world.agent("a")
    agent.renew()
    agent.release_lease()
    assert world.is_released


def test_after_the_release_nothing_is_renewed(world: World) -> None:
    agent = world.agent("a")
    agent.renew()
    agent.release_lease()
    assert not agent.renew()
    agent.release_lease()
    assert world.is_released


def test_an_agent_that_was_replaced_does_not_release_the_lease(world: World) -> None:
    older, newer = world.agent("a"), world.agent("b")
    older.renew()
    newer.renew()
    older.release_lease()
    assert not world.is_released


def test_an_agent_that_is_replaced_during_its_release_does_not_harm_the_newer(world: World) -> None:
    older, newer = world.agent("a"), world.agent("b")
    older.renew()
    world.kube.before("PATCH", newer.renew)
    older.release_lease()
    assert world.lease.spec.holder_identity == "b"
    assert not world.is_released


def test_the_next_start_of_the_agent_removes_the_release(world: World) -> None:
    agent = world.agent("a")
    agent.renew()
    agent.release_lease()
    world.agent("a again").renew()
    assert not world.is_released


def test_a_release_never_fails(world: World) -> None:
    agent = world.agent("a")
    agent.renew()
    world.kube.down = True
    agent.release_lease()


def test_an_agent_that_never_held_the_lease_releases_nothing(world: World) -> None:
    world.agent("a").release_lease()
    assert world.kube.calls == []


def test_a_deleted_lease_is_created_again(world: World) -> None:
    agent = world.agent("a")
    agent.renew()
    world.kube.delete(LEASES, NAME, namespace=names.NAMESPACE)
    with pytest.raises(ApiError):
        agent.renew()
    assert agent.renew()


def test_labels_that_others_wrote_on_the_lease_stay(world: World) -> None:
    world.agent("a").renew()
    world.kube.patch(LEASES, NAME, {"metadata": {"labels": {"x": "y"}}}, namespace=names.NAMESPACE)
    world.agent("b").renew()
    assert world.lease.metadata.labels == {"x": "y"}


class Stopping(threading.Event):
    """An event that is set once the clock shows a time."""

    def __init__(self, clock: FakeClock, after: float) -> None:
        super().__init__()
        self._clock = clock
        self._at = clock.monotonic() + after

    def is_set(self) -> bool:
        return self._clock.monotonic() >= self._at


def test_the_agent_renews_every_ten_seconds(world: World) -> None:
    world.agent("a").run(Stopping(world.clock, 35))
    written = [call for call in world.kube.calls if call.verb in ("POST", "PATCH")]
    assert len(written) == 4
    assert world.lease.spec.renew_time is not None
    assert abs(world.lease.spec.renew_time - START - timedelta(seconds=30)) < timedelta(seconds=0.2)


def test_the_agent_tries_more_often_while_the_server_is_away(world: World) -> None:
    for _ in range(2):
        world.kube.fail("GET", Unreachable(Request("GET", "/"), "refused"))
    world.agent("a").run(Stopping(world.clock, 3.1))
    assert world.lease.spec.holder_identity == "a"


def test_the_lease_is_not_taken_before_the_node_serves(world: World) -> None:
    begins = world.clock.monotonic() + 7
    agent = world.agent("a", serves=lambda: world.clock.monotonic() >= begins)
    agent.run(Stopping(world.clock, 6.9))
    assert world.kube.calls == []
    agent.run(Stopping(world.clock, 0.4))
    assert world.lease.spec.acquire_time is not None
    assert START + timedelta(seconds=7) <= world.lease.spec.acquire_time < START + timedelta(seconds=7.2)


def test_the_lease_is_released_when_the_node_stops_serving_and_taken_again_afterwards(world: World) -> None:
    serves = True
    agent = world.agent("a", serves=lambda: serves)
    agent.run(Stopping(world.clock, 1))
    serves = False
    agent.run(Stopping(world.clock, 0.1))
    assert world.is_released
    assert agent.age() is None
    calls_before = len(world.kube.calls)
    agent.run(Stopping(world.clock, 60))
    assert len(world.kube.calls) == calls_before
    serves = True
    agent.run(Stopping(world.clock, 0.1))
    assert not world.is_released
    assert agent.age() is not None


def test_a_release_that_fails_is_tried_again(world: World) -> None:
    serves = True
    agent = world.agent("a", serves=lambda: serves)
    agent.run(Stopping(world.clock, 1))
    serves = False
    world.kube.fail("PATCH", Unreachable(Request("PATCH", "/"), "refused"))
    agent.run(Stopping(world.clock, 3))
    assert world.is_released


def test_an_agent_that_does_not_serve_leaves_a_serving_agent_s_lease_alone(world: World) -> None:
    older, newer = world.agent("a"), world.agent("b")
    older.renew()
    newer.renew()
    older.release()
    assert not world.is_released
    assert world.lease.spec.holder_identity == "b"


def test_a_release_returns_whether_the_lease_was_held(world: World) -> None:
    agent = world.agent("a")
    agent.renew()
    assert agent.release_lease()
    assert not agent.release_lease()
    released = world.agent("b")
    released.renew()
    released.release()
    assert not released.release_lease()
    assert not world.agent("c").release_lease()


def test_micro_time_always_has_six_digits() -> None:
    assert micro_time(START) == "2026-03-02T09:00:00.000000Z"


def test_annotations_are_written_with_each_renewal_and_cost_no_request_of_their_own(world: World) -> None:
    annotations: dict[str, str | None] = {names.USE: "one"}
    agent = LeaseRenewer(world.kube, world.clock, name=NAME, holder="a", annotations=lambda: annotations)
    agent.renew()
    agent.renew()
    assert world.lease.metadata.annotation(names.USE) == "one"
    annotations[names.USE] = "two"
    calls_before = len(world.kube.calls)
    agent.renew()
    assert len(world.kube.calls) == calls_before + 1
    assert world.lease.metadata.annotation(names.USE) == "two"
    annotations[names.USE] = None
    agent.renew()
    assert world.lease.metadata.annotation(names.USE) is None


def test_annotations_are_removed_with_the_release(world: World) -> None:
    annotations = {names.USE: "one"}
    agent = LeaseRenewer(world.kube, world.clock, name=NAME, holder="a", annotations=lambda: annotations)
    agent.renew()
    agent.renew()
    agent.release_lease()
    assert world.is_released
    assert world.lease.metadata.annotation(names.USE) is None
