"""Data stored or written on objects in any format so far is read, and no newer format is misread.

``tests/fixtures/formats`` has a folder for each version of the formats, without the files that are as in the
version before. A format that changes gets another folder; earlier ones stay, and are read for as long as
upgrades from them are supported.
"""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
import yaml

from booking.controller.reclaimer.ending.end_warnings import Warned, encode_warned, warned_of
from booking.controller.reclaimer.evictions.comeback import has_our_finalizer, how, is_due
from booking.controller.reclaimer.holds.disruption_budgets import since
from booking.controller.reclaimer.planning.waiting_pod import barred
from booking.server.mirror.lease import MirrorLease
from booking.server.records import Place as PlannedPlace
from booking.server.store import Store, open_store
from booking.server.store.backup import restore
from booking.server.store_records import Replay
from cluster import names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import LEASES, PodTemplate
from cluster.objects.assignment import (
    AssignmentError,
    decode_assignment,
    drift_of,
    encode_assignment,
    encode_drift,
)
from cluster.objects.bookings import Booking, BookingSpec, BookingStatus, Place
from cluster.objects.cover_annotations import terminate_at
from cluster.objects.device_orders import (
    DeviceOrder,
    DeviceOrdersError,
    device_orders_of,
    encode_device_orders,
)
from cluster.objects.device_usage import DeviceUsage, NodeUsage, Squatter, UseError, decode_use, encode_use
from cluster.objects.evict_orders import EvictOrder, encode_order, order_of
from cluster.objects.hold import Hold, HoldError, encode_hold, hold_of
from cluster.objects.inventory import Device, InventoryError, decode_inventory, encode_inventory, inventory_of
from cluster.objects.maintenance import BlocksError, MaintenanceBlock, decode_blocks, encode_blocks
from cluster.objects.meta import Meta
from cluster.objects.node_labels import encode_written, written_labels
from cluster.objects.nodes import Lease, Node
from cluster.objects.pods import Pod, first_created
from cluster.objects.replaced_fields import Replaced, encode_replaced, replaced_in
from cluster.objects.reservation_pods import (
    Reservation,
    closing_since,
    reservation_name,
    reservation_of,
    visible_gpus,
)
from cluster.objects.share_request import ShareAmount, requested_mode, share_amounts
from deviceplugin.nvml.fault_file import FaultFile, Known
from deviceplugin.nvml.health import Scope
from tests.deviceplugin.nvml.cut import part
from tests.fakes.objects import A100
from tests.fakes.records import day
from tests.laws.versions import versions_of

KEPT = Path("tests/fixtures/formats")
RELEASES = sorted(folder.name for folder in KEPT.iterdir() if folder.is_dir())
NEWEST = RELEASES[-1]
STORE = "e5f34a6af8b234e82d9df4568accb038"
T = TypeVar("T")

DEVICES = (
    Device(uuid="GPU-0", index=0, model=A100, memory=81920, numa=0, links={"GPU-1": 12}),
    Device(
        uuid="GPU-1",
        index=1,
        model=A100,
        memory=81920,
        health="unhealthy",
        reason="XID 79: GPU has fallen off the bus",
        numa=0,
        links={"GPU-0": 12},
    ),
    Device(
        uuid="MIG-0", index=2, model=f"{A100}-MIG-1g.10gb", memory=9728, parent="GPU-2", profile="1g.10gb"
    ),
)
DRIFT = {"uid-of-a-pod": {"main": ("GPU-1",)}, "uid-of-another": {"main": ("GPU-0",), "setup": ("GPU-0",)}}
ASSIGNED = {"main": ("GPU-0",), "setup": ("GPU-0",)}


def at(day_of_november: int, hour: int = 0, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2026, 11, day_of_november, hour, minute, second, tzinfo=UTC)


BLOCKS = (
    MaintenanceBlock(start=at(24, 8), end=at(24, 18)),
    MaintenanceBlock(start=at(25, 8), end=at(25, 18), model=A100, count=2),
)
HOLD = Hold(
    node="node-a",
    devices=("GPU-0",),
    victims=("uid-leaves",),
    at=at(23, 9, 30, 1),
    state="bookings=4650,nodes=4700,pods=4711",
)
ORDER = EvictOrder(by="alice", reason="the rack is on fire", at=at(23, 9, 28))
LABELS = frozenset({"nvidia.com/gpu.count"})
DEVICE_ORDERS = {
    "GPU-0": DeviceOrder(cordoned="alice: the fan is loud"),
    "GPU-1": DeviceOrder(cleared=at(23, 9, 28)),
}
REPLACED = Replaced(scheduler_name="default-scheduler", priority_class_name="batch")
USE = NodeUsage(
    at=at(23, 9, 30),
    devices=(
        DeviceUsage(
            uuid="GPU-0", utilisation=87, memory=40213, temperature=61, power=288, pods={"uid-a": 40100}
        ),
        DeviceUsage(uuid="MIG-0", memory=0),
    ),
    squatters=(
        Squatter(device="GPU-0", pid=4711, command="python3", memory=2048),
        Squatter(device="GPU-0", pid=7, command="j", uid="uid-b", namespace="lab", name="b", user="bob"),
    ),
    more=1,
)
WARNED = Warned(at(27, 16), timedelta(hours=1))
FAULTS = Known(
    "a-boot 580.159.04 17",
    {
        Scope("GPU-0"): "XID 79: GPU has fallen off the bus",
        Scope("GPU-1", 2): "XID 95: Uncontained ECC error",
    },
    {"GPU-2": "2026-11-23T09:28:00Z"},
    (part(1, 2),),
)


class Kept:
    """The data that a release has written."""

    def __init__(self, release: str) -> None:
        self._releases = RELEASES[: RELEASES.index(release) + 1]
        text = self.file("objects.yaml").read_text()
        self.raw: list[dict[str, Any]] = list(yaml.safe_load_all(text))

    def file(self, name: str) -> Path:
        """A file as the release wrote it: its own, or else that of the previous release."""
        files = (KEPT / release / name for release in reversed(self._releases))
        return next(file for file in files if file.exists())

    def read(self, kind: str, name: str, into: type[T]) -> T:
        (found,) = (o for o in self.raw if (o["kind"], o["metadata"]["name"]) == (kind, name))
        return msgspec.convert(found, into)

    def annotation(self, key: str) -> str:
        """The one text under a key, on any object."""
        (text,) = {o["metadata"]["annotations"][key] for o in self.raw if key in _annotations(o)}
        return str(text)


def _annotations(raw: dict[str, Any]) -> dict[str, str]:
    return dict(raw["metadata"].get("annotations") or {})


@pytest.fixture(params=RELEASES)
def kept(request: pytest.FixtureRequest) -> Kept:
    return Kept(request.param)


# --- objects -----------------------------------------------------------------------------------------
def test_annotations_of_agents_and_server_on_a_node_are_read(kept: Kept) -> None:
    node = kept.read("Node", "node-a", Node)
    assert inventory_of(node) == DEVICES
    assert drift_of(node) == DRIFT
    assert decode_blocks(node.metadata.annotation(names.BLOCKS) or "") == BLOCKS
    assert device_orders_of(node) == DEVICE_ORDERS
    assert written_labels(node.metadata) == LABELS


def test_annotations_of_a_waiting_booked_pod_are_read(kept: Kept) -> None:
    pod = kept.read("Pod", "waits", Pod)
    assert pod.metadata.annotation(names.USER) == "alice"
    assert pod.metadata.annotation(names.ADMITTED) == "true"
    assert pod.metadata.annotation(names.BOOKING) == "b-one"
    assert terminate_at(pod) == at(27, 16)
    assert replaced_in(pod.metadata.annotations or {}) == REPLACED
    assert hold_of(pod) == HOLD
    assert versions_of(HOLD) == {"bookings": 4650, "nodes": 4700, "pods": 4711}
    assert barred(pod) == {"node-b", "node-c"}
    assert since(pod) == at(23, 9, 31)


def test_limits_and_annotations_of_a_pod_with_shares_are_read() -> None:
    pod = Kept(NEWEST).read("Pod", "shares", Pod)
    assert share_amounts(pod) == {"main": ShareAmount(memory=8192, cores=30)}
    assert requested_mode(pod) == "mps"
    kept = '{"limits":{"main":{"nvidia.com/gpu":"1"}}}'
    replaced = Replaced(limits={"main": {names.GPU_RESOURCE: "1"}})
    assert replaced_in({names.REPLACED: kept}) == replaced
    assert encode_replaced(replaced) == kept


def test_what_reservation_pods_and_their_sharers_say_is_read() -> None:
    reserving = Kept(NEWEST).read("Pod", "gpu-share-node-c-0", Pod)
    assert reservation_of(reserving) == Reservation("node-c-0")
    assert closing_since(reserving) == datetime(2026, 11, 23, 9, 28, tzinfo=UTC)
    assert reservation_name("node-c-0") == reserving.metadata.name
    assert visible_gpus(Kept(NEWEST).read("Pod", "sees", Pod)) == {"GPU-7"}


def test_annotations_of_a_leaving_pod_are_read(kept: Kept) -> None:
    pod = kept.read("Pod", "leaves", Pod)
    assert decode_assignment(pod.metadata.annotation(names.ASSIGNED) or "") == ASSIGNED
    assert has_our_finalizer(pod)
    assert (pod.metadata.labels or {})[names.COMEBACK] == "true"
    assert how(pod.metadata) == "as-it-was"
    assert warned_of(pod) == WARNED
    assert order_of(pod) == ORDER
    assert pod.metadata.annotation(names.END_REQUESTED)
    assert pod.metadata.annotation(names.NOTICE)


def test_annotations_of_a_returned_pod_are_read(kept: Kept) -> None:
    pod = kept.read("Pod", "came-back", Pod)
    assert first_created(pod) == at(20, 8)
    assert pod.metadata.annotation(names.RECREATED_FROM) == "uid-before"
    assert pod.metadata.annotation(names.COMEBACK_REASON) == "evicted"
    assert (pod.metadata.count(names.EVICTIONS), pod.metadata.count(names.KUBELET_REJECTIONS)) == (2, 1)
    assert all(
        pod.metadata.annotation(key) for key in (names.NO_USER, names.STRIPPED, names.COMEBACK_MESSAGE)
    )


def test_a_comeback_that_another_release_began_is_continued(kept: Kept) -> None:
    template = kept.read("PodTemplate", f"{names.COMEBACK_PREFIX}uid-leaves", PodTemplate)
    assert is_due(template)
    assert how(template.metadata) == "as-it-was"
    assert template.template["metadata"]["annotations"][names.RECREATED_FROM] == "uid-leaves"


def test_the_mirrors_change_number_on_its_lease_is_read(kept: Kept) -> None:
    clock = FakeClock()
    kube = FakeKube(clock)
    (lease,) = (o for o in kept.raw if o["metadata"]["name"] == names.MIRROR_LEASE)
    kube.put(LEASES, lease)
    mirror = MirrorLease(kube, clock, namespace=names.NAMESPACE, holder="another")
    assert mirror.written(STORE) == 4711
    assert mirror.written("another database") is None


def test_the_released_lease_of_an_agent_is_read(kept: Kept) -> None:
    lease = kept.read("Lease", names.node_lease("node-a"), Lease).metadata
    assert lease.annotation(names.STOPPING)
    assert decode_use(lease.annotation(names.USE) or "") == USE


def test_a_booking_and_the_decision_at_its_end_are_read(kept: Kept) -> None:
    booking = kept.read("Booking", "b-one", Booking)
    assert booking.spec == BookingSpec(
        user="alice",
        model=A100,
        count=2,
        start=at(23, 9),
        end=at(27, 16),
        namespace="research",
        topology="single-node",
        node="node-a",
        places=(Place(node="node-a", count=2),),
        store_id=STORE,
    )
    assert booking.status == BookingStatus(ending=("uid-leaves",), back="without-gpu")


# --- how they change ---------------------------------------------------------------------------------
WRITTEN = {
    names.INVENTORY: encode_inventory(DEVICES),
    names.DRIFT: encode_drift(DRIFT),
    names.BLOCKS: encode_blocks(BLOCKS),
    names.HOLD: encode_hold(HOLD),
    names.ASSIGNED: encode_assignment(ASSIGNED),
    names.EVICT: encode_order(ORDER),
    names.DEVICE_ORDERS: encode_device_orders(DEVICE_ORDERS),
    names.LABELS: encode_written(LABELS),
    names.REPLACED: encode_replaced(REPLACED),
    names.USE: encode_use(USE),
    names.WARNED: encode_warned(WARNED),
}


@pytest.mark.parametrize("key", WRITTEN)
def test_annotations_are_written_today_as_the_newest_folder_has_them(key: str) -> None:
    """When this fails a format has changed: keep the folder, add one for the next release, and read both."""
    assert WRITTEN[key] == Kept(NEWEST).annotation(key)


def test_the_newest_folder_has_every_key_that_we_write() -> None:
    ours = {value for value in vars(names).values() if isinstance(value, str) and names.is_ours(value)}
    keys = {key for raw in Kept(NEWEST).raw for key in _annotations(raw)}
    of_claims = {names.HELD_TAINT, names.HOLD_OF, names.CONFLICT_TAINT}
    mere_names = {
        names.COMEBACK,
        names.QUEUE,
        names.VISIBLE,
        names.GIVEN_BY,
        *of_claims,
        f"{names.STATE_DOMAIN}/",
    }
    assert ours - keys - mere_names == set()


def of_a_pod(key: str, read: Callable[[Pod], Any]) -> Callable[[str], Any]:
    return lambda text: read(Pod(metadata=Meta(annotations={key: text})))


def orders_on_a_node(text: str) -> Any:
    return device_orders_of(Node(metadata=Meta(annotations={names.DEVICE_ORDERS: text})))


def on_a_node(text: str) -> Any:
    return drift_of(Node(metadata=Meta(annotations={names.DRIFT: text})))


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (decode_inventory, InventoryError),
        (decode_blocks, BlocksError),
        (decode_assignment, AssignmentError),
        (on_a_node, AssignmentError),
        (orders_on_a_node, DeviceOrdersError),
        (of_a_pod(names.HOLD, hold_of), HoldError),
        (decode_use, UseError),
    ],
    ids=["inventory", "blocks", "assigned", "drift", "device-orders", "hold", "use"],
)
@pytest.mark.parametrize(
    "newer",
    [
        '{"version":2}',
        '{"version":2,"devices":[],"blocks":[],"containers":{},"pods":{}}',
        '{"version":2,"node":"node-a","devices":["GPU-0"]}',
    ],
)
def test_a_newer_format_is_refused_and_not_misread(
    read: Callable[[str], Any], error: type[Exception], newer: str
) -> None:
    with pytest.raises(error):
        read(newer)


def test_an_order_or_a_replacement_of_a_newer_format_is_ignored() -> None:
    newer = '{"version":2,"by":"alice","reason":"r","at":"2026-11-23T09:28:00Z","schedulerName":"x"}'
    assert of_a_pod(names.EVICT, order_of)(newer) is None
    assert replaced_in({names.REPLACED: newer}) == Replaced()


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (encode_inventory(DEVICES), decode_inventory),
        (encode_hold(HOLD), of_a_pod(names.HOLD, hold_of)),
        (encode_order(ORDER), of_a_pod(names.EVICT, order_of)),
    ],
    ids=["inventory", "hold", "order"],
)
def test_version_one_need_not_be_written(text: str, read: Callable[[str], Any]) -> None:
    assert "version" not in text
    assert read(text.replace("{", '{"version":1,', 1)) == read(text)


# --- the node's own file -----------------------------------------------------------------------------
def memory(folder: Path) -> FaultFile:
    return FaultFile(folder, proc_root=folder, sys_root=folder)


def test_the_faults_file_of_a_node_is_read(kept: Kept) -> None:
    assert memory(kept.file(names.FAULTS_FILE).parent).recall() == FAULTS


def test_the_faults_file_is_written_today_as_the_newest_folder_has_it(tmp_path: Path) -> None:
    memory(tmp_path).keep(FAULTS)
    assert (tmp_path / names.FAULTS_FILE).read_text() == Kept(NEWEST).file(names.FAULTS_FILE).read_text()


def test_a_faults_file_of_a_newer_format_is_ignored(tmp_path: Path) -> None:
    kept = Kept(NEWEST).file(names.FAULTS_FILE).read_text()
    (tmp_path / names.FAULTS_FILE).write_text(kept.replace("{", '{"version":2,', 1))
    assert memory(tmp_path).recall() == Known()


def test_the_manual_names_every_format_and_its_version() -> None:
    text = Path("docs/operations/upgrading.md").read_text()
    section = text.partition("\n## Formats\n")[2].partition("\n## ")[0]
    listed = {*WRITTEN, names.FAULTS_FILE} - {names.WARNED}  # this one is an instant and a length
    assert [key for key in listed if f"`{key.rpartition('/')[2]}`" not in section] == []


# --- the database ------------------------------------------------------------------------------------
def whole(store: Store) -> dict[str, Any]:
    """The whole content, as the service reads it."""
    with store.reading() as reading:
        (denied,) = reading.denied_page(after=None, limit=9)
        (entry,) = reading.audit_page(subject=None, after=None, limit=9)
        return {
            "store": store.store_id,
            "change": store.change(),
            "bookings": {r.id: (r.user, r.count, r.plan) for r in reading.ending_after(day(0))},
            "blocks": [(b.id, b.node, b.model, b.count) for b in reading.blocks(start=day(0))],
            "exemptions": [(e.id, e.user, dict(e.limits)) for e in reading.exemptions("alice", None)],
            "audit": (entry.actor, entry.action, entry.after),
            "denied": (denied.user, denied.count, denied.rules),
            "email": reading.users_with_email("alice@example.org"),
            "replay": reading.replayed("alice", "key-1"),
        }


STORED = {
    "store": "ca470f6c3069e79c97e430227cd866cb",
    "change": 3,
    "bookings": {
        "b-planned": ("bob", 2, (PlannedPlace("node-a", 2),)),
        "b-active": ("alice", 1, (PlannedPlace("node-a", 1),)),
    },
    "blocks": [("m-1", "node-a", A100, 2)],
    "exemptions": [("x-1", "alice", {"max_planned": 3})],
    "audit": ("bob", "block.create", {"node": "node-a"}),
    "denied": ("alice", 9, ("capacity",)),
    "email": ["alice"],
    "replay": Replay(
        digest="0" * 64,
        status=201,
        body=b'{"id":"b-active"}',
        headers={"Content-Type": "application/json"},
        at=day(0),
    ),
}


def test_the_database_of_a_release_is_opened_with_all_its_content(kept: Kept, tmp_path: Path) -> None:
    file = tmp_path / "bookings.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(kept.file("bookings.sql").read_text())
    with closing(open_store(f"sqlite:///{file}")) as store:
        assert whole(store) == STORED
        with store.reading() as reading:
            session = reading.session("digest-of-a-cookie", day(1))
        assert session
        assert (session.user, session.groups) == ("alice", ("lab",))


def test_a_backup_of_a_release_is_restored_with_all_its_content(kept: Kept, tmp_path: Path) -> None:
    copy, file = tmp_path / "copy", tmp_path / "bookings.db"
    shutil.copy(kept.file("bookings.backup"), copy)
    restore(copy, f"sqlite:///{file}")
    with closing(open_store(f"sqlite:///{file}")) as store:
        assert whole(store) == STORED
