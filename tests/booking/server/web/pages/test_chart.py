"""Steps of load as geometry."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from booking.server.web.pages import load
from booking.server.web.pages.axis import Axis
from booking.server.web.pages.chart import WIDE, Chart, chart
from booking.server.web.pages.load import KINDS, Piece

BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
AXIS = Axis([BEGIN + 24 * day * HOUR for day in range(4)])
_RECTANGLE = re.compile(r"M(\d+) ([\d.]+)V([\d.]+)H(\d+)V([\d.]+)Z")

Rectangle = tuple[int, float, float, int]


def drawn(*pieces: Piece, capacity: int = 4, height: int = 40) -> Chart:
    steps = load.steps(pieces, AXIS.start, AXIS.end, capacity=capacity)
    return chart(steps, AXIS, now_at=0.5, height=height)


def rectangles(path: str) -> list[Rectangle]:
    """Left, bottom, top, right of every piece of a path, which consists of nothing else."""
    found = _RECTANGLE.findall(path)
    assert "".join(f"M{a} {b}V{c}H{d}V{e}Z" for a, b, c, d, e in found) == path
    return [(int(left), float(bottom), float(top), int(right)) for left, bottom, top, right, _ in found]


def test_ones_own_booking_is_drawn_at_the_bottom_and_those_of_others_on_top() -> None:
    drawing = drawn(
        Piece("mine", 1, BEGIN, BEGIN + 24 * HOUR), Piece("others", 2, BEGIN + 12 * HOUR, BEGIN + 36 * HOUR)
    )
    assert rectangles(drawing.mine) == [(0, 40, 30, WIDE)]
    assert rectangles(drawing.others) == [(WIDE // 2, 30, 10, WIDE), (WIDE, 40, 20, WIDE + WIDE // 2)]
    assert not drawing.blocked
    assert not drawing.over


def test_maintenance_is_drawn_down_from_the_capacity_line() -> None:
    drawing = drawn(Piece("blocked", 1, BEGIN + 24 * HOUR, BEGIN + 48 * HOUR))
    assert rectangles(drawing.blocked) == [(WIDE, 10, 0, 2 * WIDE)]
    assert drawing.top == 0


def test_bookings_beyond_the_capacity_are_drawn_above_the_line() -> None:
    drawing = drawn(Piece("others", 5, BEGIN, BEGIN + 24 * HOUR))
    assert drawing.top == 8
    assert rectangles(drawing.over) == [(0, 8, 0, WIDE)]


def test_no_load_draws_nothing_and_a_model_without_devices_breaks_nothing() -> None:
    drawing = drawn()
    assert (drawing.mine, drawing.others, drawing.blocked, drawing.over) == ("", "", "", "")
    assert drawing.lines == (30, 20, 10)
    assert drawing.now == WIDE / 2
    assert drawn(capacity=0).top == 40


def test_a_booking_of_minutes_is_visible() -> None:
    drawing = drawn(Piece("mine", 4, BEGIN + HOUR, BEGIN + HOUR + timedelta(minutes=2)))
    ((left, _, _, right),) = rectangles(drawing.mine)
    assert right - left >= 2


def test_many_devices_have_few_lines() -> None:
    assert len(drawn(capacity=200).lines) <= 16


@given(
    st.lists(
        st.builds(
            lambda kind, count, start, length: Piece(
                kind, count, BEGIN + start * HOUR, BEGIN + (start + length) * HOUR
            ),
            st.sampled_from(KINDS),
            st.integers(1, 3),
            st.integers(-10, 80),
            st.integers(1, 60),
        ),
        max_size=10,
    )
)
def test_everything_stays_in_the_box_and_areas_of_a_kind_do_not_overlap(pieces: list[Piece]) -> None:
    drawing = drawn(*pieces)
    for path in (drawing.mine, drawing.others, drawing.blocked, drawing.over):
        found = rectangles(path)
        assert all(0 <= left < right <= 3 * WIDE for left, _, _, right in found)
        assert all(0 <= top < bottom <= 40 for _, bottom, top, _ in found)
        assert all(one[3] <= other[0] for one, other in pairwise(found))
