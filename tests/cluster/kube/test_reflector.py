import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from cluster.fake.clock import FakeClock, eventually
from cluster.fake.server import FakeKube
from cluster.kube.errors import Refusal, Request, ServerError, Unreachable
from cluster.kube.reflector import Reflector, Tuning
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod


class Cache:
    """A handler that records its calls."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.calls: list[str] = []
        self.fails_next = False

    def _may_fail(self) -> None:
        if self.fails_next:
            self.fails_next = False
            raise RuntimeError("a bug in the handler")

    def replace(self, items: Sequence[Pod], _version: str) -> None:
        self._may_fail()
        self.calls.append("replace")
        self.pods = {pod.metadata.name: pod for pod in items}

    def upsert(self, obj: Pod) -> None:
        self._may_fail()
        self.calls.append(f"upsert {obj.metadata.name}")
        self.pods[obj.metadata.name] = obj

    def remove(self, obj: Pod) -> None:
        self._may_fail()
        self.calls.append(f"remove {obj.metadata.name}")
        self.pods.pop(obj.metadata.name, None)


class LowestRandom:
    """Random numbers that are always the lowest."""

    def uniform(self, a: float, _b: float, /) -> float:
        return a


class World:
    """An API server, a handler and the reflector between them."""

    def __init__(self, *, streams_lists: bool = True, page_size: int = 500) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock, streams_lists=streams_lists)
        self.cache = Cache()
        self.ways_given = 0
        self.stop = threading.Event()
        self.reflector = Reflector(
            self.kube,
            PODS,
            self.cache,
            self.clock,
            field_selector="status.phase!=Succeeded",
            tuning=Tuning(page_size=page_size, random=LowestRandom()),
            give_way=self._give_way,
        )
        self._thread = threading.Thread(target=self.reflector.run, args=(self.stop,), daemon=True)

    def _give_way(self) -> None:
        self.ways_given += 1

    @contextmanager
    def following(self) -> Iterator[None]:
        """Run the reflector; it is synced when the body begins."""
        self._thread.start()
        try:
            eventually(lambda: self.reflector.is_synced)
            eventually(lambda: self.kube.watches)
            yield
        finally:
            self.stop.set()
            self._thread.join(10)
        assert not self._thread.is_alive()

    def pod(self, name: str, phase: str = "Running") -> None:
        """Put a pod in this phase."""
        self.kube.put(PODS, {"metadata": {"name": name, "namespace": "x"}, "status": {"phase": phase}})

    def gone(self, name: str) -> None:
        """Remove the pod."""
        self.kube.finish(PODS, name, namespace="x")

    def knows(self, *names: str) -> None:
        """Wait until the handler knows exactly these pods."""
        eventually(lambda: sorted(self.cache.pods) == sorted(names))

    def request_count(self, verb: str) -> int:
        """How often the API server was asked."""
        return sum(call.verb == verb for call in self.kube.calls)


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("streams", [True, False])
def test_urgent_work_goes_before_each_event(*, streams: bool) -> None:
    world = World(streams_lists=streams, page_size=1)
    for name in ("a", "b", "c"):
        world.pod(name)
    with world.following():
        listed = world.ways_given
        assert listed >= 3
        world.pod("d")
        world.knows("a", "b", "c", "d")
        assert world.ways_given > listed


def problem() -> ServerError:
    return ServerError(Request("WATCH", "/api/v1/pods"), Refusal(code=500, message="etcd has no leader"))


def test_a_reflector_is_not_synced_and_has_no_age_before_the_first_list(world: World) -> None:
    assert not world.reflector.is_synced
    assert world.reflector.staleness() is None


def test_the_list_is_streamed_and_changes_follow(world: World) -> None:
    world.pod("a")
    with world.following():
        world.knows("a")
        world.pod("b")
        world.knows("a", "b")
        world.gone("a")
        world.knows("b")
    assert world.cache.calls == ["replace", "upsert b", "remove a"]
    assert world.request_count("LIST") == 0


def test_an_object_that_leaves_the_selection_is_removed(world: World) -> None:
    world.pod("a")
    with world.following():
        world.pod("a", phase="Succeeded")
        world.knows()


def test_a_server_that_does_not_stream_lists_is_read_in_pages() -> None:
    world = World(streams_lists=False, page_size=2)
    for name in "abcde":
        world.pod(name)
    with world.following():
        world.knows(*"abcde")
        world.pod("f")
        world.knows(*"abcdef")
    assert world.request_count("LIST") == 3
    assert world.cache.calls[0] == "replace"


def test_a_page_that_fails_restarts_the_list() -> None:
    world = World(streams_lists=False, page_size=1)
    world.pod("a")
    world.kube.fail("LIST", problem())
    world._thread.start()
    world.clock.until_waiting()
    assert not world.reflector.is_synced
    world.clock.advance(1)
    world.knows("a")
    world.stop.set()


def test_a_watch_that_ends_in_good_order_is_continued_where_it_ended(world: World) -> None:
    with world.following():
        world.pod("a")
        world.knows("a")
        world.kube.break_watches()
        world.pod("b")
        world.knows("a", "b")
    assert world.cache.calls == ["replace", "upsert a", "upsert b"]


def test_a_broken_watch_loses_nothing(world: World) -> None:
    world.pod("a")
    with world.following():
        world.kube.break_watches(Unreachable(Request("GET", "/api/v1/pods"), "reset by peer"))
        world.gone("a")
        world.pod("b")
        world.clock.until_waiting()
        world.clock.advance(1)
        world.knows("b")
    assert world.cache.calls == ["replace", "remove a", "upsert b"]


def test_it_lists_again_when_history_expired_and_drops_objects_deleted_meanwhile(world: World) -> None:
    world.pod("a")
    with world.following():
        world.kube.break_watches(Unreachable(Request("GET", "/api/v1/pods"), "reset by peer"))
        world.gone("a")
        world.pod("b")
        world.kube.forget_history()
        world.clock.until_waiting()
        world.clock.advance(1)
        world.clock.until_waiting()
        world.clock.advance(2)
        world.knows("b")
    assert world.cache.calls == ["replace", "replace"]


def test_bookmarks_keep_the_age_low(world: World) -> None:
    with world.following():
        world.clock.advance(60)
        assert world.reflector.staleness() == 60
        world.kube.bookmark()
        eventually(lambda: world.reflector.staleness() == 0)
    assert world.cache.calls == ["replace"]


def test_a_kind_of_which_nothing_comes_is_listed_again_so_that_its_age_stays_low(world: World) -> None:
    """API servers of 1.32 send no bookmarks for a kind that never changes."""
    world.pod("a")
    with world.following():
        world.clock.advance(71)
        world.kube.break_watches(Unreachable(Request("GET", "/api/v1/pods"), "read timed out"))
        world.clock.until_waiting()
        world.clock.advance(1)
        eventually(lambda: world.reflector.staleness() == 0)
    assert world.cache.calls == ["replace", "replace"]


def test_a_bookmark_moves_the_version_to_continue_from(world: World) -> None:
    with world.following():
        world.pod("a")
        world.knows("a")
        world.gone("a")
        world.knows()
        world.kube.forget_history()
        world.kube.bookmark()
        world.clock.advance(1)
        world.kube.break_watches()
        world.pod("b")
        world.knows("b")
    assert world.cache.calls.count("replace") == 1


def test_the_age_grows_while_the_server_is_away_and_falls_afterwards(world: World) -> None:
    world.pod("a")
    with world.following():
        world.kube.down = True
        world.kube.break_watches(Unreachable(Request("GET", "/api/v1/pods"), "reset by peer"))
        for _ in range(8):
            world.clock.until_waiting()
            world.clock.advance(30)
        world.clock.until_waiting()
        age = world.reflector.staleness()
        assert age is not None
        assert age >= 150
        assert world.reflector.is_synced
        world.kube.down = False
        world.pod("b")
        world.clock.advance(30)
        world.knows("a", "b")
        eventually(lambda: world.reflector.staleness() == 0)


def test_pauses_between_failures_grow_to_half_a_minute(world: World) -> None:
    with world.following():
        world.kube.down = True
        world.kube.break_watches(Unreachable(Request("GET", "/api/v1/pods"), "reset by peer"))
        for _ in range(9):
            world.clock.until_waiting()
            world.clock.advance(30)
    assert world.clock.waits[:9] == [0.25, 0.5, 1, 2, 4, 8, 15, 15, 15]


def test_the_list_is_asked_for_soon_after_an_outage_that_cost_the_history(world: World) -> None:
    world.pod("a")
    with world.following():
        world.kube.down = True
        world.kube.break_watches(Unreachable(Request("GET", "/api/v1/pods"), "reset by peer"))
        for _ in range(8):
            world.clock.until_waiting()
            world.clock.advance(30)
        world.clock.until_waiting()
        world.pod("b")
        world.kube.forget_history()
        world.kube.down = False
        world.clock.advance(30)
        world.clock.until_waiting()
        world.clock.advance(0.25)
        world.knows("a", "b")
    assert world.clock.waits[:10] == [0.25, 0.5, 1, 2, 4, 8, 15, 15, 15, 0.25]


def test_a_watch_that_ends_at_once_is_restarted_after_a_pause(world: World) -> None:
    with world.following():
        world.kube.break_watches()
        eventually(lambda: world.request_count("WATCH") == 2)
        world.kube.break_watches()
        world.clock.until_waiting()
    assert world.clock.waits == [0.25]


def test_a_handler_that_fails_gets_the_whole_list_again(world: World) -> None:
    world.pod("a")
    with world.following():
        world.cache.fails_next = True
        world.pod("b")
        world.clock.until_waiting()
        assert not world.reflector.is_synced
        world.clock.advance(1)
        world.knows("a", "b")
        eventually(lambda: world.reflector.is_synced)
    assert world.cache.calls == ["replace", "replace"]


def test_a_streamed_list_that_ends_too_early_replaces_nothing(world: World) -> None:
    world.kube.fail("WATCH", problem())
    world._thread.start()
    world.clock.until_waiting()
    assert world.cache.calls == []
    world.stop.set()
    world._thread.join(10)


def test_the_reflector_stops_while_the_watch_sends_nothing(world: World) -> None:
    with world.following():
        assert world.kube.watches == 1


def held_by_the_thread(world: World) -> list[Pod]:
    """Pods that the reflector's thread references."""
    found: list[Pod] = []
    frame = sys._current_frames().get(world._thread.ident or 0)
    while frame:
        for value in frame.f_locals.values():
            parts = value.values() if isinstance(value, dict) else value
            if isinstance(value, dict | list | tuple):
                found += [part for part in parts if isinstance(part, Pod)]
        frame = frame.f_back
    return found


@pytest.mark.parametrize("streams_lists", [True, False])
def test_the_memory_of_a_list_is_released_as_soon_as_it_was_handled(*, streams_lists: bool) -> None:
    world = World(streams_lists=streams_lists)
    for number in range(5):
        world.pod(f"p{number}")
    with world.following():
        assert len(world.cache.pods) == 5
        eventually(lambda: not held_by_the_thread(world), deadline=60)


def test_lists_are_counted() -> None:
    world = World()
    assert world.reflector.lists == 0
    with world.following():
        assert world.reflector.lists == 1
