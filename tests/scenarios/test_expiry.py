"""The end of a booking with all parts: warnings, and what becomes of bare pods and of workloads."""

from datetime import timedelta

import pytest

from booking.eviction.settings import WARNINGS, EndAction
from cluster import event_reasons, names
from cluster.kube.resources import EVENTS, PODS
from cluster.objects.pods import Pod, asks_for_gpus, is_live
from demo.simulation.controllers import Workload
from tests.scenarios.acts import gpus, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import NAMESPACE, a_pod
from tests.scenarios.seeing import is_back, runs, uid_of, waits
from tests.scenarios.world import World

LASTING = timedelta(days=2)


def messages(world: World, reason: str) -> list[tuple[str, str]]:
    """Pod and message of every Event with this reason, each as often as it was counted."""
    found = []
    for event in world.kube.list(EVENTS).items:
        if event.reason == reason:
            whole = world.kube.raw(EVENTS, event.metadata.name, namespace=event.metadata.namespace)
            found += [(str(whole["involvedObject"]["name"]), event.message or "")] * (event.count or 1)
    return found


def test_warnings_come_a_day_an_hour_and_a_quarter_of_an_hour_before_the_end(world: World) -> None:
    world.alice.book(lasting=LASTING)
    uid = world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    over, seen = world.clock.now() + LASTING, dict[str, timedelta]()

    def is_over() -> bool:
        pod = world.pod("alice-1")
        mark = pod.metadata.annotation(names.WARNED) if pod else None
        if mark:
            seen.setdefault(mark.partition(" ")[2], over - world.clock.now())
        return is_back(world, "alice-1", uid)

    world.until(is_over, "it ends with the booking", within=LASTING.total_seconds() + 600)
    late = [expected - before for expected, before in zip(WARNINGS, seen.values(), strict=True)]
    assert all(abs(by) < timedelta(seconds=60) for by in late), late
    settled(world)


@pytest.mark.parametrize("kill", ["controller-0", None])
def test_each_warning_is_given_once_whichever_replica_leads(new_world: Worlds, kill: str | None) -> None:
    world = new_world(replicas=2)
    world.alice.book(lasting=LASTING)
    uid = world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    if kill:
        world.run((LASTING - timedelta(minutes=30)).total_seconds())
        world.kill(kill)
    world.until(lambda: is_back(world, "alice-1", uid), "it ends", within=LASTING.total_seconds() + 600)
    warnings = [text for name, text in messages(world, event_reasons.BOOKING_ENDS_SOON) if name == "alice-1"]
    spans = [text.partition("in less than ")[2].partition(".")[0] for text in warnings]
    assert sorted(spans) == ["1 day", "1 hour", "15 minutes"]
    settled(world)


def workload(world: World) -> tuple[Pod, str]:
    """A pod of a workload, which alice's booking covers; the pod, and the booking's name."""
    world.controllers.run(Workload("training", NAMESPACE, 1, a_pod("template")))
    world.until(lambda: [p for p in world.pods() if p.status.phase == "Running"], "it runs")
    (pod,) = world.pods()
    # Whose a workload's pods are, an administrator says on the namespace; here it is written by hand.
    mine = {"metadata": {"annotations": {names.USER: "alice"}}}
    world.kube.patch(PODS, pod.metadata.name, mine, namespace=NAMESPACE)
    booking = world.alice.book(lasting=LASTING)
    world.until(lambda: cover_annotation(world, pod) == booking, "it is booked")
    return pod, booking


def cover_annotation(world: World, pod: Pod) -> str | None:
    """The booking that is written on it now."""
    now = world.pod(pod.metadata.name)
    return now.metadata.annotation(names.BOOKING) if now else None


def end(world: World) -> None:
    """Time goes on until the booking is over."""
    world.run(LASTING.total_seconds() + 30)


def test_a_workloads_pod_stays_when_its_booking_is_over_and_leaves_for_the_next_booked_pod(
    world: World,
) -> None:
    pod, booking = workload(world)
    end(world)
    now = world.pod(pod.metadata.name)
    assert now is not None
    assert (now.metadata.uid, now.status.phase) == (pod.metadata.uid, "Running")
    assert cover_annotation(world, pod) is None
    assert [name for name, _ in messages(world, event_reasons.BOOKING_ENDED)] == [pod.metadata.name]
    assert [b.status.ending for b in world.bookings() if b.name == booking] == [()]
    world.bob.book(4, topology="any")
    for name in ("bob-1", "bob-2"):
        world.bob.create(a_pod(name, 2))
    served(world, "bob-1", "bob-2")
    settled(world)
    assert world.pod(pod.metadata.name) is None
    (fresh,) = (p for p in world.pods() if p.metadata.name not in ("bob-1", "bob-2"))
    assert is_live(fresh)
    assert waits(world, fresh.metadata.name)


@pytest.mark.parametrize("action", ["delete", "recreate-without-gpu"])
def test_a_workloads_pod_that_ends_is_recreated_by_its_controller_with_its_gpu(
    new_world: Worlds, action: EndAction
) -> None:
    world = new_world(end_action_with_controller=action)
    pod, _ = workload(world)
    end(world)
    settled(world)
    (fresh,) = world.pods()
    assert fresh.metadata.uid != pod.metadata.uid
    assert fresh.status.phase == "Running"
    assert gpus(world) == {fresh.metadata.name: 1}
    assert fresh.metadata.annotation(names.RECREATED_FROM) is None


def test_a_bare_pod_ends_with_its_booking_where_the_action_is_to_delete(new_world: Worlds) -> None:
    world = new_world(end_action_without_controller="delete")
    world.alice.book(lasting=LASTING)
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    end(world)
    settled(world)
    assert world.pods() == []


def test_a_bare_pod_stays_when_its_booking_is_over_where_the_action_is_to_demote(new_world: Worlds) -> None:
    world = new_world(end_action_without_controller="demote")
    world.alice.book(lasting=LASTING)
    uid = world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    end(world)
    settled(world)
    assert uid_of(world, "alice-1") == uid
    assert runs(world, "alice-1")


@pytest.mark.parametrize("action", ["recreate-without-gpu", "demote", "delete"])
def test_no_pod_ends_or_is_demoted_while_the_booking_server_is_away(
    new_world: Worlds, action: EndAction
) -> None:
    world = new_world(end_action_without_controller=action)
    booking = world.alice.book(lasting=LASTING)
    uid = world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    world.run((LASTING - timedelta(minutes=10)).total_seconds())
    world.kill("server", back_after=None)
    world.run(1800)
    assert uid_of(world, "alice-1") == uid
    pod = world.pod("alice-1")
    assert pod is not None
    assert is_live(pod)
    assert pod.metadata.annotation(names.BOOKING) == booking
    world.start("server")

    def is_done() -> bool:
        now = world.pod("alice-1")
        return now is None or now.metadata.annotation(names.BOOKING) is None

    world.until(is_done, "it is made good", within=300)
    settled(world)
    left = world.pod("alice-1")
    kept = {"recreate-without-gpu": False, "demote": True}
    assert (asks_for_gpus(left) if left else None) == kept.get(action)
