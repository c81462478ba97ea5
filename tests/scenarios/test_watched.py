"""The laws are judged in every world: by what its parts know, after a restart, and once more at its end."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from booking.server.mirror.mirror import Mirror
from cluster import names
from cluster.cache import informers
from cluster.kube import clock_skew
from cluster.kube.resources import BOOKINGS, PODS
from demo.simulation.server import Server
from tests.laws.broken import LawBrokenError
from tests.scenarios.acts import came_back, fill, served, settled
from tests.scenarios.person import NAMESPACE, a_pod
from tests.scenarios.world import World

Scenario = Callable[[World], None]


def play(scenario: Scenario, folder: Path) -> World:
    """In a world that has come to its end."""
    with World(folder) as world:
        scenario(world)
    return world


def overbooked_without_events(world: World) -> None:
    with suppress(LawBrokenError):
        begin, end = (f"{world.at(hours=hour):%Y-%m-%dT%H:%M:%SZ}" for hour in (0, 1))
        spec = {"user": "alice", "model": "NVIDIA-A100-SXM4-40GB", "count": 99, "start": begin, "end": end}
        world.kube.put(BOOKINGS, {"metadata": {"name": "b-99"}, "spec": spec})


def test_a_law_that_was_broken_without_events_is_reported_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(LawBrokenError, match="99 x"):
        play(overbooked_without_events, tmp_path)


def wanted_by_alice(world: World) -> None:
    """Her pod waits, and bob's must leave for it."""
    world.alice.create(a_pod("alice-1"))
    world.run(60)


def crowded(world: World) -> None:
    """All GPUs are bob's, and one of them is booked by alice."""
    fill(world)
    world.alice.book()
    world.run(1)


@pytest.mark.parametrize(
    ("part", "kind"), [("extender", "bookings"), ("controller-0", "nodes"), ("controller-0", "bookings")]
)
def test_a_part_that_ignores_late_events_is_detected(
    part: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_events(world: World) -> None:
        if part != "extender":
            crowded(world)
        world.lag(part, 1000.0, kind=kind)
        world.run(200)
        wanted_by_alice(world)

    monkeypatch.setattr(informers, "STALE_AFTER", float("inf"))
    with pytest.raises(LawBrokenError, match=rf"L6.* by {part}, who has had no events for \d\d\d"):
        play(without_events, tmp_path)


@pytest.mark.parametrize(("part", "seconds"), [("controller-0", 31.0), ("extender", -31.0)])
def test_a_part_that_ignores_a_wrong_clock_is_detected(
    part: str, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(world: World) -> None:
        crowded(world)
        world.parts[part].skew = seconds
        world.run(5)
        wanted_by_alice(world)

    monkeypatch.setattr(clock_skew, "LARGEST_SKEW", timedelta.max)
    with pytest.raises(LawBrokenError, match=rf"L6.* by {part}, .* wrong by .{abs(seconds)} s"):
        play(mistaken, tmp_path)


def test_a_mirror_that_ignores_what_its_database_says_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vouches(mirror: Mirror) -> bool:
        mirror._lease.renew(1, "any")
        return True

    def spoilt(world: World) -> None:
        world.spoil_database()
        monkeypatch.setattr(Mirror, "round", vouches)
        world.run(30)

    with pytest.raises(LawBrokenError, match=r"L6.* said to be true by server"):
        play(spoilt, tmp_path)


def booked_pod_runs(world: World) -> str:
    """Alice's pod has had a GPU of bob's for a minute."""
    crowded(world)
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    world.run(60)
    return "alice-1"


def victim_is_back(world: World) -> str:
    """Bob's pod that made way has just come back, without its GPU."""
    bobs = fill(world, cheap="bob-3")
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    world.until(lambda: came_back(world, bobs), "it is back")
    return "bob-3"


@pytest.mark.parametrize(
    ("law", "whose"),
    [
        (r"L2.* team/alice-1 is deleted by controller-0, though b-\d+ covers it", booked_pod_runs),
        ("L4.* team/bob-3 is deleted by controller-0 as if its user did it", victim_is_back),
    ],
    ids=["booked", "come back"],
)
def test_a_part_that_deletes_a_pod_as_its_user_would_is_detected(
    law: str, whose: Callable[[World], str], tmp_path: Path
) -> None:
    def deletes(world: World) -> None:
        name = whose(world)
        world.parts["controller-0"].kube.delete(PODS, name, namespace=NAMESPACE)
        settled(world, 120)

    with pytest.raises(LawBrokenError, match=law):
        play(deletes, tmp_path)


def test_a_mirror_that_ignores_whose_planned_bookings_are_there_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_a_new_database(world: World) -> None:
        world.alice.book(start=world.at(days=1))
        world.kill("server", back_after=None)
        for file in world.server.database.parent.iterdir():
            file.rename(file.with_name(f"{file.name}.away"))
        world.start("server")
        settled(world, 120)

    monkeypatch.setattr(Mirror, "_compare_stores", lambda *_: None)
    with pytest.raises(
        LawBrokenError, match=r"L9.* The Booking b-1 of the database \w+ is deleted by server, "
    ):
        play(with_a_new_database, tmp_path)


def settle(world: World) -> None:
    fill(world)
    settled(world)


def test_every_part_is_restarted_at_the_end_and_nothing_changes(tmp_path: Path) -> None:
    assert play(settle, tmp_path).is_compared


def test_a_part_that_changes_something_when_it_starts_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Server.build

    def build_and_forget(server: Server) -> None:
        build(server)
        body = {"metadata": {"annotations": {names.USER: None}}}
        server.world.kube.patch(PODS, "bob-1", body, namespace=NAMESPACE)

    def forgetful(world: World) -> None:
        settle(world)
        monkeypatch.setattr(Server, "build", build_and_forget)

    with pytest.raises(LawBrokenError, match="A restart has changed pod team/bob-1"):
        play(forgetful, tmp_path)


def test_a_world_with_a_dead_part_is_not_compared(tmp_path: Path) -> None:
    assert not play(lambda world: world.kill("agent n0", back_after=None), tmp_path).is_compared
