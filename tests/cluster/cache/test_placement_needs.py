"""When placement checks are needed: bookings of one node, and nodes with maintenance."""

from collections.abc import Mapping
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from cluster.cache.placement_needs import PlacementNeeds
from cluster.objects.bookings import Booking
from cluster.objects.maintenance import MaintenanceBlock, encode_blocks
from tests.fakes.objects import A100, A6000, EPOCH, a_booking

HOUR = timedelta(hours=1)
BLOCK = MaintenanceBlock(start=EPOCH, end=EPOCH + HOUR)
TEXT = encode_blocks([BLOCK])


def whole(name: str = "b-1", *, hours: int = 1, start: int = 0, count: int = 2, model: str = A100) -> Booking:
    times = {"start": EPOCH + start * HOUR, "end": EPOCH + hours * HOUR}
    return a_booking(name, count=count, model=model, topology="single-node", **times)


def needs(*bookings: Booking, blocked: Mapping[str, str] | None = None) -> PlacementNeeds:
    made = PlacementNeeds()
    made.update({booking.name: booking for booking in bookings}, blocked or {})
    return made


def test_nothing_needs_a_check_before_anything_is_known() -> None:
    fresh = PlacementNeeds()
    assert (fresh.whole(EPOCH), fresh.blocks) == (frozenset(), {})


BOOKINGS = st.lists(
    st.tuples(
        st.integers(1, 3), st.sampled_from(["any", "single-node"]), st.sampled_from([A100, A6000])
    ).flatmap(lambda kind: st.tuples(st.just(kind), st.integers(0, 3), st.integers(0, 3))),
    max_size=5,
)


@given(BOOKINGS, st.integers(-1, 7))
def test_a_model_needs_checks_while_a_single_node_booking_of_it_is_not_over(
    drawn: list[tuple[tuple[int, str, str], int, int]], now: int
) -> None:
    instant = EPOCH + now * HOUR
    bookings = [
        a_booking(
            f"b-{number}",
            count=count,
            topology=topology,
            model=model,
            start=EPOCH + start * HOUR,
            end=EPOCH + (start + hours) * HOUR,
        )
        for number, ((count, topology, model), start, hours) in enumerate(drawn)
    ]
    assert needs(*bookings).whole(instant) == {
        booking.spec.model
        for booking in bookings
        if booking.spec.count > 1 and booking.spec.topology == "single-node" and booking.spec.end > instant
    }


class TestMaintenance:
    def test_each_node_has_its_blocks(self) -> None:
        other = MaintenanceBlock(start=EPOCH, end=EPOCH + 2 * HOUR, model=A100, count=1)
        found = needs(blocked={"n0": TEXT, "n1": encode_blocks([BLOCK, other])})
        assert found.blocks == {"n0": (BLOCK,), "n1": (BLOCK, other)}

    def test_a_node_with_an_empty_list_has_no_blocks(self) -> None:
        assert needs(blocked={"n0": "[]", "n1": TEXT}).blocks == {"n1": (BLOCK,)}

    def test_maintenance_that_is_over_stays_listed(self) -> None:
        """The booking server removes it; plans look at the instants themselves."""
        found = needs(blocked={"n0": TEXT})
        found.whole(BLOCK.end + HOUR)
        assert found.blocks == {"n0": (BLOCK,)}

    def test_unreadable_maintenance_is_ignored_and_logged_and_the_other_nodes_count(self) -> None:
        with capture_logs() as lines:
            found = needs(blocked={"n0": "{", "n1": TEXT})
        assert found.blocks == {"n1": (BLOCK,)}
        assert [(line["node"], line["log_level"]) for line in lines] == [("n0", "warning")]


class TestKeeping:
    def test_unchanged_maintenance_is_the_same_object_and_is_logged_once(self) -> None:
        made, bookings, blocked = PlacementNeeds(), {"b-1": whole()}, {"n0": TEXT, "n1": "{"}
        with capture_logs() as lines:
            made.update(bookings, blocked)
            before = made.blocks
            made.update(bookings, blocked)
            made.update({**bookings, "b-2": whole("b-2", model=A6000)}, blocked)
        assert made.blocks is before
        assert len(lines) == 1
        assert made.whole(EPOCH) == {A100, A6000}

    def test_blocks_are_replaced_and_never_changed_in_place(self) -> None:
        made = needs(blocked={"n0": TEXT})
        before = made.blocks
        made.update({}, {"n1": TEXT})
        assert (before, made.blocks) == ({"n0": (BLOCK,)}, {"n1": (BLOCK,)})

    def test_deleted_bookings_and_nodes_no_longer_count(self) -> None:
        made = needs(whole(), blocked={"n0": TEXT})
        made.update({}, {})
        assert (made.whole(EPOCH), made.blocks) == (frozenset(), {})
