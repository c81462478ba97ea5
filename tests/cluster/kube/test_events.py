import queue
import threading
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from cluster import event_reasons
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube import events
from cluster.kube.errors import Request, Unreachable
from cluster.kube.events import EventRecorder
from cluster.kube.resources import EVENTS, KubeEvent
from cluster.objects.meta import Meta
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod

POD = Pod(metadata=Meta(name="a", namespace="team", uid="u1"))


class World:
    """A recorder and what it wrote."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.registry = CollectorRegistry()
        self.recorder = EventRecorder(self.kube, self.clock, component="tester", registry=self.registry)

    @property
    def written(self) -> tuple[KubeEvent, ...]:
        self.recorder.flush()
        return self.kube.list(EVENTS).items

    def outcome(self, what: str) -> float | None:
        return self.registry.get_sample_value("gpu_booking_events_total", {"outcome": what})


@pytest.fixture
def world() -> World:
    return World()


def test_an_event_names_the_pod_and_has_the_message(world: World) -> None:
    world.recorder.warning(POD, event_reasons.WAITING_FOR_GPU, "No node has 9 GPUs.")
    (event,) = world.written
    assert (event.type, event.reason, event.message) == (
        "Warning",
        event_reasons.WAITING_FOR_GPU,
        "No node has 9 GPUs.",
    )
    assert (event.count, event.first_timestamp) == (1, world.clock.now())
    raw = world.kube.raw(EVENTS, event.metadata.name, namespace="team")
    involved = {"kind": "Pod", "apiVersion": "v1", "namespace": "team", "name": "a", "uid": "u1"}
    assert raw["involvedObject"] == involved
    assert raw["source"] == {"component": "tester"}


def test_an_event_about_a_node_is_in_the_default_namespace(world: World) -> None:
    world.recorder.normal(Node(metadata=Meta(name="n0", uid="u2")), "NoGPUs", "No driver.")
    (event,) = world.written
    assert (event.metadata.namespace, event.type) == ("default", "Normal")
    raw = world.kube.raw(EVENTS, event.metadata.name, namespace="default")
    assert raw["involvedObject"] == {"kind": "Node", "apiVersion": "v1", "name": "n0", "uid": "u2"}


def test_a_repeated_message_is_counted(world: World) -> None:
    for _ in range(3):
        world.recorder.warning(POD, event_reasons.WAITING_FOR_GPU, "No node has 9 GPUs.")
        assert world.written
        world.clock.advance(500)
    (event,) = world.written
    assert event.count == 3
    assert event.last_timestamp is not None
    assert event.first_timestamp is not None
    assert (event.last_timestamp - event.first_timestamp).total_seconds() == 1000


def test_after_ten_minutes_it_is_written_as_a_new_event(world: World) -> None:
    world.recorder.warning(POD, event_reasons.WAITING_FOR_GPU, "No node has 9 GPUs.")
    assert len(world.written) == 1
    world.clock.advance(601)
    world.recorder.warning(POD, event_reasons.WAITING_FOR_GPU, "No node has 9 GPUs.")
    assert [event.count for event in world.written] == [1, 1]


def test_another_message_is_another_event(world: World) -> None:
    world.recorder.warning(POD, event_reasons.WAITING_FOR_GPU, "No node has 9 GPUs.")
    world.recorder.warning(POD, event_reasons.WAITING_FOR_GPU, "No node has an H200.")
    assert len(world.written) == 2


def test_an_event_that_has_expired_is_written_again(world: World) -> None:
    world.recorder.warning(POD, event_reasons.WAITING_FOR_GPU, "No node has 9 GPUs.")
    (event,) = world.written
    world.kube.delete(EVENTS, event.metadata.name, namespace="team")
    world.recorder.warning(POD, event_reasons.WAITING_FOR_GPU, "No node has 9 GPUs.")
    assert [event.count for event in world.written] == [1]


def test_a_long_message_is_cut_to_what_the_server_accepts(world: World) -> None:
    world.recorder.normal(POD, "Long", "x" * 5000)
    assert [event.message for event in world.written] == ["x" * 1024]


def test_callers_do_not_wait_for_a_full_queue(world: World) -> None:
    accepted = [world.recorder.normal(POD, "Many", f"{i}") for i in range(events.LONGEST_QUEUE + 2)]
    assert world.outcome("dropped") == accepted.count(False) == 2


def test_a_refused_event_is_counted_and_the_next_is_written(world: World) -> None:
    world.kube.fail("POST", Unreachable(Request("POST", "/"), "refused"))
    world.recorder.normal(POD, "First", "one")
    world.recorder.normal(POD, "Second", "two")
    assert not world.written
    assert [event.reason for event in world.written] == ["Second"]
    assert (world.outcome("refused"), world.outcome("written")) == (1, 1)


def test_only_a_limited_number_of_messages_is_remembered(world: World) -> None:
    for i in range(events.MOST_REMEMBERED + 5):
        world.recorder.normal(POD, "Many", f"{i}")
        world.recorder.flush()
    assert len(world.recorder._written) == events.MOST_REMEMBERED


def test_the_thread_writes_waiting_events_at_the_end(world: World) -> None:
    stop, begun, go_on = threading.Event(), threading.Event(), threading.Event()
    world.kube.before("POST", lambda: (begun.set(), go_on.wait(60)))
    thread = threading.Thread(target=world.recorder.run, args=(stop,), daemon=True)
    thread.start()
    world.recorder.normal(POD, "First", "one")
    assert begun.wait(60)
    world.recorder.normal(POD, "Last", "two")
    stop.set()
    go_on.set()
    thread.join(60)
    assert world.outcome("written") == 2


def test_the_recorder_s_thread_waits_for_events_and_ends_when_stopped(world: World) -> None:
    stop, get_called = threading.Event(), threading.Event()

    class Patient(queue.Queue[Any]):
        """A queue that may not be polled."""

        def get(self, *limits: Any, **named: Any) -> Any:
            assert (limits, named) == ((), {}), "it asks again after a while"
            get_called.set()
            return super().get()

    world.recorder._queue = Patient()
    thread = threading.Thread(target=world.recorder.run, args=(stop,), daemon=True)
    thread.start()
    assert get_called.wait(60)
    stop.set()
    thread.join(60)
    assert not thread.is_alive()


def test_the_end_waits_only_a_limited_time_for_a_slow_server(world: World) -> None:
    for i in range(5):
        world.recorder.normal(POD, "Many", f"{i}")
    world.kube.before("POST", lambda: world.clock.advance(events.LAST_WORDS))
    ended = threading.Event()
    ended.set()

    world.recorder.run(ended)

    assert world.outcome("written") == 1
