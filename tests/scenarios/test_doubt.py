"""What is not known is not acted upon (law L6), and what is lost is not made up (law L9)."""

from datetime import timedelta

import pytest

from cluster import names
from cluster.kube.errors import Refusal, Request, refused
from cluster.kube.resources import LEASES
from demo.simulation.server import UnavailableError
from tests.scenarios.acts import came_back, fill, is_kept, left, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import a_pod
from tests.scenarios.seeing import has_left, is_back, runs, state_of, waits
from tests.scenarios.world import World

DAY = timedelta(days=1)
GONE = refused(Request("WATCH", "/"), Refusal(code=410, reason="Expired", message="too old"))


def booked(world: World) -> tuple[dict[str, str], str]:
    """Alice's pod runs on what was bob's, for a day: bob's uids, hers."""
    bobs = fill(world)
    world.alice.book(lasting=DAY)
    hers = world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    world.run(120)
    return bobs, hers


def until_the_end(world: World, *, but: float = 0.0) -> None:
    """Time goes on to the end of the booking, or to so many seconds before."""
    (booking,) = world.bookings()
    world.run((booking.spec.end - world.clock.now()).total_seconds() - but)


def test_no_pod_ends_while_the_mirror_is_stale_and_all_end_when_it_is_back(world: World) -> None:
    _, hers = booked(world)
    until_the_end(world, but=70)
    world.kill("server", back_after=None)
    world.run(150)
    assert not has_left(world, "alice-1", hers)
    world.start("server")
    world.until(lambda: is_back(world, "alice-1", hers), "it ends")
    settled(world)


def test_a_booked_pod_is_served_even_while_the_mirror_is_stale(world: World) -> None:
    bobs = fill(world)
    world.alice.book()
    world.kill("server", back_after=None)
    world.run(100)
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    settled(world)
    assert len(left(world, bobs)) == 1


@pytest.mark.parametrize("seconds", [60.0, 200.0])
def test_an_end_during_an_outage_of_the_api_server_comes_after_it(seconds: float, world: World) -> None:
    bobs, hers = booked(world)
    gone = left(world, bobs)
    until_the_end(world, but=20)
    world.away(seconds)
    assert not has_left(world, "alice-1", hers)
    world.until(lambda: is_back(world, "alice-1", hers), "it ends", within=120)
    settled(world)
    assert left(world, bobs) == gone


def test_nobody_can_book_while_the_api_server_is_away(world: World) -> None:
    world.is_away = True
    world.run(40)
    with pytest.raises(UnavailableError):
        world.server.book("alice", world.alice.request())
    world.is_away = False
    world.run(60)
    world.alice.book()
    settled(world)


@pytest.mark.parametrize("skew", [-31.0, 31.0, 3600.0])
def test_a_controller_whose_clock_is_wrong_does_nothing_until_it_is_right(skew: float, world: World) -> None:
    bobs, hers = booked(world)
    gone = left(world, bobs)
    until_the_end(world, but=20)
    world.parts["controller-0"].skew = skew
    world.run(5)
    world.alice.create(a_pod("alice-2"))
    until_the_end(world, but=-30)
    assert not has_left(world, "alice-1", hers)
    assert left(world, bobs) == gone
    world.parts["controller-0"].skew = 0.0
    world.until(lambda: is_back(world, "alice-1", hers), "it ends")
    settled(world)


def test_clocks_that_differ_by_less_than_thirty_seconds_change_nothing(world: World) -> None:
    for number, part in enumerate(world.parts.values()):
        part.skew = (-1) ** number * 25.0
    world.kill("controller-0")
    world.kill("extender")
    world.run(60)
    bobs = fill(world)
    world.alice.book(lasting=DAY)
    hers = world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    assert len(left(world, bobs)) == 1
    for part in world.parts.values():
        part.skew = 0.0
    until_the_end(world)
    world.until(lambda: is_back(world, "alice-1", hers), "it ends")
    settled(world)


def test_an_extender_that_starts_with_a_wrong_clock_binds_no_pod(world: World) -> None:
    world.extender.skew = 45.0
    world.kill("extender")
    world.run(10)
    world.bob.create(a_pod("bob-1"))
    world.run(40)
    assert not runs(world, "bob-1")
    world.extender.skew = 0.0
    served(world, "bob-1")
    settled(world)


@pytest.mark.parametrize("jump", [-3600.0, 45.0, 3600.0])
def test_an_extender_whose_clock_jumps_binds_no_pod_until_it_is_right(jump: float, world: World) -> None:
    world.extender.skew = jump
    world.bob.create(a_pod("bob-1"))
    world.run(40)
    assert not runs(world, "bob-1")
    world.extender.skew = 0.0
    served(world, "bob-1")
    settled(world)


def test_a_server_that_has_lost_its_database_stops_and_deletes_nothing(
    world: World, faults: list[str]
) -> None:
    bobs, hers = booked(world)
    gone, before = left(world, bobs), state_of(world)
    world.kill("server", back_after=None)
    for file in world.server.database.parent.iterdir():
        file.rename(file.with_name(f"{file.name}.away"))
    world.start("server")
    world.run(120)
    assert world.server.mirror.is_stopped
    with pytest.raises(UnavailableError):
        world.server.book("bob", world.bob.request())
    until_the_end(world, but=-120)
    assert not has_left(world, "alice-1", hers)
    assert state_of(world)["pods"] == before["pods"]
    world.kill("server", back_after=None)
    for file in world.server.database.parent.glob("*.away"):
        file.rename(file.with_suffix(""))
    world.start("server")
    world.until(lambda: is_back(world, "alice-1", hers), "it ends when the database is back")
    settled(world)
    assert left(world, bobs) == gone
    assert "the mirror has stopped" in faults.pop()
    assert faults == []


@pytest.mark.parametrize("part", ["server", "controller-0", "extender", "scheduler", "kubelet n0"])
def test_a_watch_whose_history_is_gone_begins_again_and_misses_nothing(part: str, world: World) -> None:
    bobs = fill(world)
    world.cut(part)
    if part != "server":
        world.alice.book(lasting=DAY)
    world.alice.create(a_pod("alice-1"))
    world.run(5)
    world.parts[part].lose_watches(GONE)
    world.cut(part, cut=False)
    if part == "server":
        world.alice.book(lasting=DAY)
    served(world, "alice-1")
    settled(world)
    assert len(left(world, bobs)) == 1
    assert came_back(world, bobs) == left(world, bobs)


@pytest.mark.parametrize("kind", ["pods", "nodes", "leases", "bookings"])
def test_a_controller_without_events_of_one_kind_for_minutes_takes_nothing(kind: str, world: World) -> None:
    bobs = fill(world)
    world.alice.book()
    world.lag("controller-0", 1000.0, kind=kind)
    world.run(160)
    world.alice.create(a_pod("alice-1"))
    world.run(60)
    assert not is_kept(world, "alice-1")
    assert left(world, bobs) == []
    world.lag("controller-0", 0.0, kind=kind)
    served(world, "alice-1")
    settled(world)
    assert len(left(world, bobs)) == 1


@pytest.mark.parametrize("kind", ["pods", "nodes", "leases", "bookings"])
def test_an_extender_without_events_of_one_kind_for_minutes_binds_no_pod(kind: str, world: World) -> None:
    world.lag("extender", 1000.0, kind=kind)
    world.run(160)
    world.bob.create(a_pod("bob-1"))
    world.run(60)
    assert not runs(world, "bob-1")
    world.lag("extender", 0.0, kind=kind)
    served(world, "bob-1")
    settled(world)


@pytest.mark.parametrize("trouble", ["hangs", "is dead", "is behind", "cannot reach the API server"])
def test_an_extender_in_trouble_costs_no_second_victim_and_bars_no_node(trouble: str, world: World) -> None:
    bobs = fill(world)
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    world.until(lambda: is_kept(world, "alice-1"), "a GPU is kept")
    if trouble == "hangs":
        world.pause("extender", 45.0)
    elif trouble == "is dead":
        world.kill("extender", back_after=45.0)
    elif trouble == "is behind":
        world.lag("extender", 45.0, kind="pods")
    else:
        world.cut("extender")
    for _ in range(45):
        world.run(1)
        pod = world.pod("alice-1")
        assert pod
        assert not pod.metadata.annotation(names.BARRED)
    world.cut("extender", cut=False)
    world.lag("extender", 0.0, kind="pods")
    served(world, "alice-1")
    settled(world)
    assert len(left(world, bobs)) == 1


def test_nothing_is_booked_or_ended_while_the_database_cannot_be_used(world: World) -> None:
    _, hers = booked(world)
    until_the_end(world, but=70)
    world.spoil_database()
    with pytest.raises(UnavailableError):
        world.server.book("bob", world.bob.request())
    until_the_end(world, but=-60)
    assert not has_left(world, "alice-1", hers)
    assert [booking.spec.user for booking in world.bookings()] == ["alice"]
    world.spoil_database(spoilt=False)
    world.until(lambda: is_back(world, "alice-1", hers), "it ends")
    settled(world)


def test_a_booked_pod_is_served_even_while_the_database_cannot_be_used(world: World) -> None:
    bobs = fill(world)
    world.alice.book()
    world.spoil_database()
    world.run(100)
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    world.spoil_database(spoilt=False)
    settled(world)
    assert len(left(world, bobs)) == 1


def test_a_controller_without_events_for_minutes_neither_keeps_nor_evicts(world: World) -> None:
    bobs = fill(world)
    world.cut("controller-0")
    world.alice.book()
    world.run(160)
    world.cut("controller-0", cut=False)
    world.lag("controller-0", 1000.0)
    world.alice.create(a_pod("alice-1"))
    world.run(100)
    assert not is_kept(world, "alice-1")
    assert waits(world, "alice-1")
    world.lag("controller-0", 0.0)
    served(world, "alice-1")
    settled(world)
    assert len(left(world, bobs)) == 1


def test_the_second_replica_goes_on_where_the_first_has_stopped(new_world: Worlds) -> None:
    world = new_world(replicas=2)
    bobs = fill(world, cheap="bob-3")
    world.alice.book(lasting=DAY)
    leader = next(r for r in world.replicas if r.elector.leads())
    world.alice.create(a_pod("alice-1"))
    world.until(lambda: has_left(world, "bob-3", bobs["bob-3"]), "bob-3 leaves")
    world.kill(leader.name, back_after=None)
    world.until(lambda: is_back(world, "bob-3", bobs["bob-3"]), "the other brings it back")
    served(world, "alice-1")
    lease = world.kube.get(LEASES, names.CONTROLLER_LEASE, namespace=names.NAMESPACE)
    assert lease.spec.holder_identity is not None
    assert not lease.spec.holder_identity.startswith(leader.name)
    settled(world)
