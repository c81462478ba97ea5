"""What the mirror writes, from the wanted and the existing objects."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType

import msgspec

from booking.server.mirror.plan import fields_of, plan, spec_of
from booking.server.records import Place, Record
from cluster import names
from cluster.objects.bookings import Booking
from tests.booking.server.mirror.memory_source import a_record
from tests.fakes.objects import A100

CREATED = {
    "user": "alice",
    "model": A100,
    "count": 1,
    "start": "2026-03-02T09:00:00Z",
    "end": "2026-03-04T09:00:00Z",
    "topology": "any",
    "resource": names.GPU_RESOURCE,
    "storeId": "ours",
}

NOTHING: Mapping[str, object] = MappingProxyType({})


def the_object(record: Record, more: Mapping[str, object] = NOTHING, **metadata: object) -> Booking:
    """The object of a record, with other fields of its spec."""
    meta = {"name": record.id, "uid": f"uid-{record.id}", "resourceVersion": "7", **metadata}
    spec = fields_of(spec_of(record, store_id="ours")) | dict(more)
    return msgspec.convert({"metadata": meta, "spec": spec}, Booking)


def test_a_booking_without_an_object_is_created_with_all_fields_for_the_cluster() -> None:
    (write,) = plan([a_record()], [], store_id="ours")

    assert (write.verb, write.name, write.spec) == ("create", "b-1", CREATED)


def test_a_namespace_and_a_topology_are_written_as_well() -> None:
    (write,) = plan([a_record(namespace="research", topology="single-node")], [], store_id="ours")

    assert write.spec == {**CREATED, "namespace": "research", "topology": "single-node"}


def test_the_planned_places_are_written_and_a_single_node_by_its_name() -> None:
    (whole,) = plan([a_record(count=2, plan=(Place("n0", 2),))], [], store_id="ours")
    assert (whole.spec["node"], whole.spec["places"]) == ("n0", ({"node": "n0", "count": 2},))
    (torn,) = plan([a_record(count=2, plan=(Place("n0", 1), Place("n1", 1)))], [], store_id="ours")
    assert "node" not in torn.spec
    assert [place["node"] for place in torn.spec["places"]] == ["n0", "n1"]


def test_a_changed_plan_is_written_and_a_lost_one_is_removed() -> None:
    planned = a_record(plan=(Place("n0", 1),))
    (moved,) = plan([a_record(plan=(Place("n1", 1),))], [the_object(planned)], store_id="ours")
    assert moved.spec == {"node": "n1", "places": ({"node": "n1", "count": 1},)}
    (lost,) = plan([a_record()], [the_object(planned)], store_id="ours")
    assert (lost.spec["node"], lost.spec["places"]) == (None, ())


def test_an_equal_object_is_not_written() -> None:
    record = a_record(namespace="research")

    assert plan([record], [the_object(record)], store_id="ours") == ()


def test_only_differences_are_written_and_only_over_the_version_that_was_read() -> None:
    before = a_record(namespace="research")
    after = a_record(end=datetime(2026, 3, 3, 12, tzinfo=UTC))

    (write,) = plan([after], [the_object(before)], store_id="ours")

    assert (write.verb, write.name, write.version, write.uid) == ("change", "b-1", "7", "uid-b-1")
    assert write.spec == {"end": "2026-03-03T12:00:00Z", "namespace": None}


def test_an_object_without_a_booking_is_deleted_if_it_is_the_one_that_was_read() -> None:
    (write,) = plan([], [the_object(a_record())], store_id="ours")

    assert (write.verb, write.name, write.version, write.uid) == ("delete", "b-1", "7", "uid-b-1")


def test_an_object_that_is_being_deleted_counts_as_gone() -> None:
    leaving = the_object(a_record(), deletionTimestamp="2026-03-02T09:00:00Z")

    assert plan([], [leaving], store_id="ours") == ()
    assert [write.verb for write in plan([a_record()], [leaving], store_id="ours")] == ["create"]


def test_deletions_and_shortenings_are_written_before_creations() -> None:
    gone, short, new = a_record("b-gone"), a_record("b-short"), a_record("b-new")
    shorter = msgspec.structs.replace(short, end=short.end - timedelta(days=1))

    writes = plan([new, shorter], [the_object(gone), the_object(short)], store_id="ours")

    assert [(write.verb, write.name) for write in writes] == [
        ("delete", "b-gone"),
        ("change", "b-short"),
        ("create", "b-new"),
    ]


def test_instants_are_written_in_utc_and_whole_seconds() -> None:
    stockholm = timezone(timedelta(hours=1))
    record = a_record(start=datetime(2026, 3, 2, 10, 0, 0, 999, tzinfo=stockholm))

    (write,) = plan([record], [], store_id="ours")

    assert write.spec["start"] == "2026-03-02T09:00:00Z"
    assert plan([record], [the_object(record)], store_id="ours") == ()


def test_the_resource_follows_the_nodes_and_stays_while_none_of_them_has_the_model() -> None:
    record = a_record()
    (write,) = plan([record], [], store_id="ours", resources={record.model: "nvidia.com/mig-1g.10gb"})
    assert write.spec["resource"] == "nvidia.com/mig-1g.10gb"

    there = the_object(record, {"resource": "nvidia.com/mig-1g.10gb"})
    assert plan([record], [there], store_id="ours") == ()
    (write,) = plan([record], [there], store_id="ours", resources={record.model: names.GPU_RESOURCE})
    assert write.spec == {"resource": names.GPU_RESOURCE}


def test_the_memory_of_shares_and_the_numbers_of_their_devices_are_written() -> None:
    placed = (Place("", 1, (4,)), Place("n0", 1, (3,)))
    (write,) = plan([a_record(count=2, memory=20_480, plan=placed)], [], store_id="ours")
    assert write.spec["memory"] == 20_480
    assert write.spec["places"] == ({"node": "n0", "count": 1, "lanes": (3,)},)
