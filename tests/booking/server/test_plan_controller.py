"""The stored booking plan and the maintenance on Nodes, kept true by the booking server."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from booking.server.availability.node_keeping import NodeMarks
from booking.server.capacity.capacity import Capacity
from booking.server.plan_controller import PlanController, PlanStatus
from booking.server.records import Place, Record
from booking.server.store import Store, open_store
from booking.server.store_records import Block
from cluster import names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import NODES
from cluster.objects.maintenance import MaintenanceBlock, decode_blocks
from tests.fakes.objects import A100
from tests.fakes.records import a_record

HOUR = timedelta(hours=1)


class Nodes:
    """A view of the cluster."""

    def __init__(self, kube: FakeKube) -> None:
        self._kube = kube
        self.devices = {"n0": 2, "n1": 2}
        self.problem: str | None = None
        self.covered: frozenset[str] = frozenset()

    def capacity(self) -> Capacity:
        return Capacity({A100: dict(self.devices)})

    def unready_reason(self) -> str | None:
        return self.problem

    def autoscaler_marks(self) -> Mapping[str, NodeMarks]:
        return {
            meta.name: NodeMarks(
                meta.annotation(names.SCALE_DOWN_DISABLED),
                meta.annotation(names.NODE_KEPT) is not None,
                meta.resource_version,
            )
            for meta in (node.metadata for node in self._kube.list(NODES).items)
        }

    def covered_nodes(self) -> frozenset[str]:
        return self.covered

    def blocked(self) -> Mapping[str, str]:
        return {
            node.metadata.name: node.metadata.annotation(names.BLOCKS) or ""
            for node in self._kube.list(NODES).items
        }


class Kept:
    """A database with a booking of two GPUs on n0 tomorrow, and its plan_controller."""

    def __init__(self, store: Store) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        for name in ("n0", "n1"):
            self.kube.put(NODES, {"metadata": {"name": name}})
        self.nodes = Nodes(self.kube)
        self.store = store
        self.notified = 0
        self.plan_controller = self.controller(HOUR)
        self.add(
            a_record(self.clock.now() + 24 * HOUR, count=2, topology="single-node", plan=(Place("n0", 2),))
        )

    def controller(self, keeps_ahead: timedelta | None) -> PlanController:
        return PlanController(
            self.kube, self.store, self.clock, self.nodes, moved=self._moved, keeps_ahead=keeps_ahead
        )

    def autoscaling(self) -> dict[str, str | None]:
        """What the nodes say to autoscalers."""
        return {name: marks.value for name, marks in self.nodes.autoscaler_marks().items()}

    def say(self, node: str, value: str | None) -> None:
        """Somebody else says it."""
        change = {"metadata": {"annotations": {names.SCALE_DOWN_DISABLED: value}}}
        self.kube.patch(NODES, node, change)

    def add(self, record: Record) -> None:
        self.store.write(lambda writing: writing.add(record))

    def block(self, node: str) -> None:
        block = Block(
            id="m-1",
            node=node,
            start=self.clock.now() + 24 * HOUR,
            end=self.clock.now() + 48 * HOUR,
            reason="new fans",
            created_by="alice",
            created=self.clock.now(),
        )
        self.store.write(lambda writing: writing.block_add(block))

    def plan(self) -> tuple[Place, ...]:
        found = self.store.read(lambda reading: reading.find(None, "b-one"))
        assert found is not None
        return found.plan

    def _moved(self) -> None:
        self.notified += 1


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    store = open_store(f"sqlite:///{tmp_path}/bookings.db")
    yield Kept(store)
    store.close()


def test_nothing_is_written_while_nothing_has_changed(kept: Kept) -> None:
    before = kept.store.change()
    kept.plan_controller.round()
    kept.plan_controller.round()
    assert (kept.store.change(), kept.notified) == (before, 0)


def test_a_booking_whose_node_has_lost_devices_finds_another_and_the_mirror_is_notified(kept: Kept) -> None:
    kept.plan_controller.round()
    kept.nodes.devices = {"n0": 1, "n1": 2}
    kept.plan_controller.round()
    assert kept.plan() == (Place("n1", 2),)
    assert kept.notified == 1


def test_l6_no_booking_is_moved_while_the_cluster_is_unknown(kept: Kept) -> None:
    kept.nodes.devices = {"n1": 2}
    kept.nodes.problem = "There have been no events of pods."
    kept.plan_controller.round()
    assert kept.plan() == (Place("n0", 2),)


def test_maintenance_is_written_on_its_node_moves_bookings_and_vanishes_when_it_is_over(kept: Kept) -> None:
    kept.block("n0")
    kept.plan_controller.round()
    (found,) = decode_blocks(kept.nodes.blocked()["n0"])
    now = kept.clock.now()
    assert found == MaintenanceBlock(start=now + 24 * HOUR, end=now + 48 * HOUR)
    assert kept.nodes.blocked()["n1"] == ""
    assert kept.plan() == (Place("n1", 2),)
    kept.clock.advance(48 * 3600)
    kept.plan_controller.round()
    assert kept.nodes.blocked()["n0"] == ""


# --- the status of bookings --------------------------------------------------------------------------
def test_bookings_at_risk_are_counted_until_there_is_room_again(kept: Kept) -> None:
    kept.plan_controller.round()
    assert kept.plan_controller.status == PlanStatus(at_risk=0, gpus={A100: 4}, booked={A100: 0})
    kept.nodes.devices = {"n0": 1, "n1": 1}
    kept.plan_controller.round()
    assert kept.plan_controller.status == PlanStatus(at_risk=1, gpus={A100: 2}, booked={A100: 0})
    kept.nodes.devices = {"n0": 2, "n1": 1}
    kept.plan_controller.round()
    assert kept.plan_controller.status == PlanStatus(at_risk=0, gpus={A100: 3}, booked={A100: 0})


def test_a_booking_of_a_model_that_left_the_cluster_is_at_risk_and_keeps_its_plan(
    kept: Kept,
) -> None:
    kept.add(a_record(kept.clock.now() + HOUR, id="b-gone", model="NVIDIA-H100", plan=(Place("n9", 1),)))
    kept.plan_controller.round()
    assert kept.plan_controller.status
    assert kept.plan_controller.status.at_risk == 1
    found = kept.store.read(lambda reading: reading.find(None, "b-gone"))
    assert found is not None
    assert found.plan == (Place("n9", 1),)


def test_gpus_of_a_booking_count_as_booked_while_it_runs(kept: Kept) -> None:
    kept.clock.advance(24 * 3600)
    kept.plan_controller.round()
    assert kept.plan_controller.status
    assert kept.plan_controller.status.booked == {A100: 2}


def test_l6_the_status_of_bookings_is_unknown_while_the_cluster_is_unknown(kept: Kept) -> None:
    kept.plan_controller.round()
    kept.nodes.problem = "There have been no events of pods."
    kept.plan_controller.round()
    assert kept.plan_controller.status is None
    kept.nodes.problem = None
    kept.plan_controller.round()
    assert kept.plan_controller.status == PlanStatus(at_risk=0, gpus={A100: 4}, booked={A100: 0})


# --- nodes that autoscalers must not remove ----------------------------------------------------------
def test_a_node_is_kept_from_before_its_booking_starts_until_it_has_ended(kept: Kept) -> None:
    seen = []
    for seconds in (0, 23 * 3600, 23 * 3600, 2 * 86400):
        kept.clock.advance(seconds)
        kept.plan_controller.round()
        seen.append(kept.autoscaling())
    nothing = {"n0": None, "n1": None}
    assert seen == [nothing, {"n0": "true", "n1": None}, {"n0": "true", "n1": None}, nothing]
    assert not any(marks.is_ours for marks in kept.nodes.autoscaler_marks().values())


def test_a_node_on_which_a_booked_pod_runs_is_kept_wherever_the_plan_is(kept: Kept) -> None:
    kept.nodes.covered = frozenset({"n1"})
    kept.plan_controller.round()
    assert kept.autoscaling() == {"n0": None, "n1": "true"}


@pytest.mark.parametrize("value", ["true", "false"])
def test_what_somebody_else_has_said_to_autoscalers_is_left_alone(kept: Kept, value: str) -> None:
    kept.say("n0", value)
    for seconds in (23 * 3600, 4 * 86400):
        kept.clock.advance(seconds)
        kept.plan_controller.round()
        assert kept.autoscaling() == {"n0": value, "n1": None}


def test_what_somebody_has_changed_since_is_theirs(kept: Kept) -> None:
    kept.clock.advance(23 * 3600)
    kept.plan_controller.round()
    kept.say("n0", "false")
    kept.clock.advance(4 * 86400)
    kept.plan_controller.round()
    assert kept.nodes.autoscaler_marks()["n0"].is_ours is False
    assert kept.autoscaling()["n0"] == "false"


def test_a_setting_takes_back_what_was_said_to_autoscalers(kept: Kept) -> None:
    kept.clock.advance(23 * 3600)
    kept.plan_controller.round()
    kept.controller(None).round()
    assert kept.autoscaling() == {"n0": None, "n1": None}


def test_l6_nodes_stay_kept_while_the_cluster_is_unknown(kept: Kept) -> None:
    kept.clock.advance(23 * 3600)
    kept.plan_controller.round()
    kept.nodes.problem = "There have been no events of pods."
    kept.clock.advance(4 * 86400)
    kept.plan_controller.round()
    assert kept.autoscaling()["n0"] == "true"
