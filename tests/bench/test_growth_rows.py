"""Whether anything grows faster than its input."""

import pytest

from tests.bench.bench_growth import GROWS, MEASURE, SIZES, SMALL, grows


@pytest.mark.parametrize(("times", "holds"), [(1, True), (14, True), (15, True), (16, False)])
def test_what_grows_faster_than_the_number_of_nodes_misses_its_target(times: float, *, holds: bool) -> None:
    values = {1_000: 2.0, max(SIZES): 2.0 * times}
    measured = {
        (part, field, nodes): value
        for part, fields in {
            "extender": ("filter", "bind", "event", "cold", "memory"),
            "controller": ("plan", "cold", "memory"),
        }.items()
        for field in fields
        for nodes, value in values.items()
    }
    rows = list(grows(measured))
    assert [row.name for row in rows] == [kind.name for kind in GROWS]
    assert {(row.value, row.floor, row.holds) for row in rows} == {(times, max(SIZES) / SMALL, holds)}
    assert set(GROWS) <= set(MEASURE.kinds)
