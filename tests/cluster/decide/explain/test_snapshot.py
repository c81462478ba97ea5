"""What an explanation is made from, and how it writes instants, numbers and lists."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from cluster import names
from cluster.decide.explain.snapshot import at, capital, counted, listed
from cluster.objects.hold import Hold
from tests.cluster.decide.explain.snapshots import alices, running, snapshot
from tests.fakes.objects import a_booking, a_pod


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 3, 2, 9, 0, tzinfo=UTC), "2026-03-02 09:00 UTC"),
        (datetime(2026, 3, 2, 9, 0, 7, tzinfo=UTC), "2026-03-02 09:00:07 UTC"),
        (datetime(2026, 3, 2, 0, 30, tzinfo=timezone(timedelta(hours=1))), "2026-03-01 23:30 UTC"),
    ],
)
def test_an_instant_is_written_in_utc_with_seconds_only_where_there_are_any(
    moment: datetime, text: str
) -> None:
    assert at(moment) == text


@pytest.mark.parametrize(("amount", "text"), [(0, "0 GPUs"), (1, "1 GPU"), (2, "2 GPUs")])
def test_a_number_has_its_noun_in_singular_or_plural(amount: int, text: str) -> None:
    assert counted(amount, "GPU") == text


@pytest.mark.parametrize(
    ("items", "text"),
    [((), ""), (("a",), "a"), (("a", "b"), "a and b"), (("a", "b", "c"), "a, b and c")],
)
def test_items_are_listed_with_commas_and_one_and(items: tuple[str, ...], text: str) -> None:
    assert listed(iter(items)) == text


def test_a_clause_becomes_a_sentence_and_keeps_its_other_capitals() -> None:
    assert capital("fewer GPUs, or a larger node") == "Fewer GPUs, or a larger node."


def test_a_user_has_their_own_bookings_and_pods_and_no_others() -> None:
    own, other = running(), a_pod("q").of("bob").asks(1).on("n0", {"main": ("GPU-n0-1",)})
    bookings = (a_booking(), a_booking("b-2", user="bob"))
    seen = replace(snapshot(own, other, bookings=bookings), barred=frozenset({("uid-p", "b-9")}))
    found = seen.user_coverage("alice")
    assert [one.name for one in found.bookings] == ["b-1"]
    assert list(found.pods) == ["uid-p"]
    assert {uid: one.name for uid, one in found.covered.items()} == {"uid-p": "b-1"}
    assert found.barred == seen.barred


def test_a_pod_without_cover_is_still_a_pod_of_its_user() -> None:
    found = snapshot(running()).user_coverage("alice")
    assert (list(found.pods), found.covered, found.bookings) == (["uid-p"], {}, ())


def test_the_holding_of_a_pod_is_found_by_its_uid_on_its_node() -> None:
    one, two = running("p", 0), running("q", 1)
    holding = snapshot(one, two).holding(two.obj)
    assert holding is not None
    assert (holding.uid, holding.node, list(holding.devices)) == ("uid-q", "n0", ["GPU-n0-1"])


def test_a_pod_without_a_node_or_on_an_unknown_one_has_no_holding() -> None:
    waiting, lost = alices("w").asks(1), alices("l").asks(1).on("gone")
    seen = snapshot(waiting, lost)
    assert seen.holding(waiting.obj) is None
    assert seen.holding(lost.obj) is None
    assert snapshot().holding(running().obj) is None


def test_of_several_holds_that_name_a_victim_the_first_live_pod_by_uid_is_reported() -> None:
    waiting = [alices(name).asks(1) for name in ("a", "b")]
    hold = Hold(node="n0", devices=("GPU-n0-0",), victims=("uid-v",))
    holds = {"uid-b": hold, "uid-a": hold, "uid-0-gone": hold}
    found = snapshot(*waiting, holds=holds).needed_by("uid-v")
    assert found is not None
    assert found.metadata.uid == "uid-a"


def test_a_pod_that_no_hold_names_need_not_leave() -> None:
    waiting = alices("w").asks(1)
    hold = Hold(node="n0", devices=("GPU-n0-0",), victims=("uid-v",))
    assert snapshot(waiting, holds={"uid-w": hold}).needed_by("uid-other") is None
    assert snapshot(holds={"uid-w": hold}).needed_by("uid-v") is None


def test_by_default_a_snapshot_has_the_usual_namespace_and_no_placement_checks() -> None:
    seen = snapshot()
    assert (seen.home, seen.barred, seen.placement_checks, seen.permanent_pods) == (
        names.NAMESPACE,
        frozenset(),
        {},
        None,
    )
