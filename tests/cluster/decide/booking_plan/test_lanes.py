"""Which shares are one lane, and where pods pin it."""

from cluster.decide.booking_plan import NO_NODE, Lane, PlannedBooking, lane_pins, lanes_of, places, shares_of


def _booking(
    key: str, start: int, end: int, *devices: int, node: str = "n0", whole: bool = False
) -> PlannedBooking:
    plan = ((node, len(devices)),)
    return PlannedBooking(key, start, end, len(devices), whole, plan, memory=10, devices=devices)


def _lanes(*bookings: PlannedBooking) -> list[Lane]:
    return lanes_of(share for booking in bookings for share in shares_of(booking))


def _spans(*bookings: PlannedBooking) -> list[tuple[int, int, int]]:
    return [(lane.item.start, lane.item.end, lane.item.size) for lane in _lanes(*bookings)]


def test_shares_of_one_device_that_overlap_are_one_lane_and_others_are_not() -> None:
    chain = _booking("a", 0, 4, 1), _booking("b", 3, 8, 1), _booking("c", 7, 9, 1)
    assert _spans(*chain) == [(0, 9, 1)]
    assert _spans(chain[0], chain[2]) == [(0, 4, 1), (7, 9, 1)]
    assert _spans(chain[0], _booking("d", 4, 5, 1), _booking("e", 0, 4, 2)) == [
        (0, 4, 1),
        (0, 4, 1),
        (4, 5, 1),
    ]


def test_a_booking_of_one_node_joins_its_devices_and_whoever_shares_them() -> None:
    pair, single = _booking("a", 0, 4, 1, 2, whole=True), _booking("b", 3, 8, 2)
    assert _spans(pair, single) == [(0, 8, 2)]
    assert _spans(_booking("a", 0, 4, 1, 2), single) == [(0, 4, 1), (0, 8, 1)]


def test_shares_without_a_number_are_alone_and_a_lane_of_two_nodes_has_none() -> None:
    assert _spans(_booking("a", 0, 4, 0), _booking("b", 0, 4, 0)) == [(0, 4, 1), (0, 4, 1)]
    (torn,) = _lanes(_booking("a", 0, 4, 1), _booking("b", 0, 4, 1, node="n1"))
    assert (torn.node, torn.peak) == (NO_NODE, 20)


def test_pods_of_several_bookings_of_a_lane_have_one_device_together() -> None:
    lanes = _lanes(_booking("a", 0, 4, 1), _booking("b", 0, 4, 1), _booking("c", 0, 4, 2, 3))
    first = lanes[0].item.key
    assert lane_pins(lanes, {"a": {"n0": 1}, "b": {"n0": 1}}) == {first: {"n0": 1}}
    assert lane_pins(lanes, {"a": {"n0": 1}, "b": {"n1": 1}}) == {first: {"n0": 1, "n1": 1}}
    assert list(lane_pins(lanes, {"c": {"n1": 2}, "z": {"n0": 1}}).values()) == [{"n1": 1}, {"n1": 1}]


def test_a_plan_of_shares_is_by_node_with_the_numbers_of_its_devices() -> None:
    shares = shares_of(_booking("a", 0, 4, 7, 8, 9))
    assert places(shares, {("a", 1): "a0"}) == (("a0", (8,)), ("n0", (7, 9)))
