"""Steps of load as geometry."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from booking.web.pages import load
from booking.web.pages.axis import Axis
from booking.web.pages.chart import WIDE, Chart, chart
from booking.web.pages.load import KINDS, Piece

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


def test_a_booking_of_mine_stands_on_the_ground_and_anothers_upon_it() -> None:
    picture = drawn(
        Piece("mine", 1, BEGIN, BEGIN + 24 * HOUR), Piece("others", 2, BEGIN + 12 * HOUR, BEGIN + 36 * HOUR)
    )
    assert rectangles(picture.mine) == [(0, 40, 30, WIDE)]
    assert rectangles(picture.others) == [(WIDE // 2, 30, 10, WIDE), (WIDE, 40, 20, WIDE + WIDE // 2)]
    assert not picture.blocked
    assert not picture.over


def test_maintenance_hangs_from_the_line_of_what_there_is() -> None:
    picture = drawn(Piece("blocked", 1, BEGIN + 24 * HOUR, BEGIN + 48 * HOUR))
    assert rectangles(picture.blocked) == [(WIDE, 10, 0, 2 * WIDE)]
    assert picture.top == 0


def test_what_is_booked_beyond_what_there_is_rises_over_the_line() -> None:
    picture = drawn(Piece("others", 5, BEGIN, BEGIN + 24 * HOUR))
    assert picture.top == 8
    assert rectangles(picture.over) == [(0, 8, 0, WIDE)]


def test_nothing_is_drawn_of_nothing_and_a_model_without_devices_breaks_nothing() -> None:
    picture = drawn()
    assert (picture.mine, picture.others, picture.blocked, picture.over) == ("", "", "", "")
    assert picture.lines == (30, 20, 10)
    assert picture.now == WIDE / 2
    assert drawn(capacity=0).top == 40


def test_a_booking_of_minutes_can_be_seen() -> None:
    picture = drawn(Piece("mine", 4, BEGIN + HOUR, BEGIN + HOUR + timedelta(minutes=2)))
    ((left, _, _, right),) = rectangles(picture.mine)
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
    picture = drawn(*pieces)
    for path in (picture.mine, picture.others, picture.blocked, picture.over):
        found = rectangles(path)
        assert all(0 <= left < right <= 3 * WIDE for left, _, _, right in found)
        assert all(0 <= top < bottom <= 40 for _, bottom, top, _ in found)
        assert all(one[3] <= other[0] for one, other in pairwise(found))
