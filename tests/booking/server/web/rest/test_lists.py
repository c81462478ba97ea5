"""Lists by REST: filters, pages, and whose bookings a user sees."""

from datetime import timedelta

import pytest

from tests.booking.server.web.served import BOOKINGS, Served, problem
from tests.fakes.objects import A100, A6000

DAY = timedelta(days=1).total_seconds()


def ids(served: Served, query: str = "", *, user: str = "alice") -> list[str]:
    answer = served.ask("GET", BOOKINGS + query, user=user)
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.get_json()["bookings"]]


def several(served: Served, number: int) -> list[str]:
    """Bookings of alice's, one after the other, all over by now; by their start."""
    made = []
    for _ in range(number):
        made.append(served.booked(duration="P1D"))
        served.clock.advance(20 * DAY)
    return made


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_list_comes_a_page_at_a_time_without_gap_or_overlap(served: Served, size: int) -> None:
    made = several(served, 5)
    found, query = [], f"?past=true&limit={size}"
    while True:
        page = served.ask("GET", BOOKINGS + query).get_json()
        assert len(page["bookings"]) <= size
        found += [each["id"] for each in page["bookings"]]
        if "continue" not in page:
            break
        query = f"?past=true&limit={size}&continue={page['continue']}"
    assert found == made


def test_an_unknown_page_is_refused(served: Served) -> None:
    problem(served.ask("GET", f"{BOOKINGS}?continue=nonsense"), 422)


@pytest.mark.parametrize("limit", ["0", "-1", "501", "ten", "1.0", "", "99999999999999999999"])
def test_an_invalid_page_size_is_refused(served: Served, limit: str) -> None:
    problem(served.ask("GET", f"{BOOKINGS}?limit={limit}"), 400)


def test_bookings_are_filtered_by_state_model_and_time(served: Served) -> None:
    first, second = several(served, 2)
    now = served.booked(model=A6000)

    assert ids(served) == [now]
    assert ids(served, "?state=ended") == [first, second]
    assert ids(served, "?state=active") == [now]
    assert ids(served, "?state=planned") == []
    assert ids(served, f"?past=true&model={A100}") == [first, second]
    assert ids(served, "?model=NVIDIA RTX A6000") == [now]
    assert ids(served, "?end=2026-03-10T00:00:00Z") == [first]
    assert ids(served, "?start=2026-03-10T00:00:00Z&end=2026-04-01T00:00:00Z") == [second]
    assert ids(served, "?start=2026-03-10T00:00:00Z&past=false") == [now]
    problem(served.ask("GET", f"{BOOKINGS}?state=running"), 400)


def test_only_administrators_see_other_peoples_bookings(served: Served) -> None:
    hers, his = served.booked(), served.booked(user="bob")
    problem(served.ask("GET", f"{BOOKINGS}?user=bob"), 403)
    assert ids(served, "?user=alice") == [hers]

    served.signing_in.administrators.add("alice")
    assert ids(served, "?user=bob") == [his]
    assert sorted(ids(served)) == sorted([hers, his])
    assert served.ask("GET", f"{BOOKINGS}/{his}").get_json()["user"] == "bob"


def test_strange_filters_do_no_harm(served: Served) -> None:
    served.signing_in.administrators.add("alice")
    for text in ("'; DROP TABLE bookings --", "<script>alert(1)</script>", "größer", "%"):
        for name in ("user", "model"):
            assert ids(served, f"?{name}={text.replace('%', '%25')}") == []
    assert served.ask("GET", BOOKINGS).status_code == 200
