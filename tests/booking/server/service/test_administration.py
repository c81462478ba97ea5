"""What administrators do: for others, against others, with devices, with rules; all of it audited."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from booking.durations import Duration
from booking.server.errors import (
    NotAllowedError,
    RefusedError,
)
from booking.server.records import BookingChange, SlotRequest
from booking.server.service import BookingService
from booking.server.store import Store
from cluster.fake.clock import START, FakeClock
from tests.fakes.objects import A100, A6000
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import a_request, day

ALICE, BOB, ROOT = somebody("alice"), somebody("bob"), an_administrator()
DAY = timedelta(days=1).total_seconds()


def rules(do: Callable[[], object]) -> list[str]:
    with pytest.raises(RefusedError) as refused:
        do()
    return [violation.rule for violation in refused.value.violations]


def audited(service: BookingService) -> list[tuple[str, str, str, str | None]]:
    """Newest first."""
    entries = service.audit(ROOT).entries
    return [(entry.actor, entry.action, entry.subject, entry.reason) for entry in entries]


# --- for another user --------------------------------------------------------------------------------


def test_invisible_characters_in_denied_demand_are_stored_escaped(service: BookingService) -> None:
    """A form accepts any text, and PostgreSQL stores no NUL."""
    assert "unknown-model" in rules(lambda: service.create(ALICE, a_request(model="\x00")))
    assert [each.model for each in service.denied(ROOT).entries] == [r"'\x00'"]


def test_dry_runs_and_slot_searches_are_not_recorded_as_denied_demand(service: BookingService) -> None:
    planned = service.create(ALICE, a_request(day(1)))
    assert not service.dry_run_create(ALICE, a_request(day(30))).is_accepted
    assert not service.dry_run_change(ALICE, planned.id, BookingChange(end=day(40))).is_accepted
    request = SlotRequest(model=A100, duration=Duration(days=1), deadline=day(0.5))
    assert rules(lambda: service.earliest(BOB, request)) == ["after-the-deadline"]
    assert service.denied(ROOT).entries == ()
    assert rules(lambda: service.change(ALICE, planned.id, BookingChange(end=day(40)))) == ["longest"]
    assert [each.rules for each in service.denied(ROOT).entries] == [("longest",)]


# --- against another user ----------------------------------------------------------------------------


def test_a_booking_that_an_administrator_ends_does_not_count_for_the_cooldown(
    service: BookingService, clock: FakeClock
) -> None:
    record = service.create(ALICE, a_request())
    clock.advance(DAY)
    assert rules(lambda: service.release(ROOT, record.id)) == ["no-reason"]
    assert rules(lambda: service.release(ROOT, record.id, reason="  ")) == ["no-reason"]
    assert rules(lambda: service.release(ROOT, record.id, reason="x" * 501)) == ["reason-too-long"]
    ended = service.release(ROOT, record.id, reason="the rack is on fire")
    assert (ended.end, ended.ended_by, ended.reason, ended.waived) == (
        day(1),
        "root",
        "the rack is on fire",
        True,
    )
    assert audited(service)[0] == ("root", "booking.release", record.id, "the rack is on fire")
    assert service.create(ALICE, a_request()).start == day(1)


def test_a_booking_that_its_owner_gives_back_with_a_reason_counts(
    service: BookingService, clock: FakeClock
) -> None:
    record = service.create(ALICE, a_request())
    clock.advance(DAY)
    ended = service.release(ALICE, record.id, reason="done")
    assert (ended.waived, ended.ended_by) == (False, None)
    assert audited(service)[0] == ("alice", "booking.release", record.id, "done")
    assert rules(lambda: service.create(ALICE, a_request())) == ["cooldown"]


def test_an_administrators_own_booking_is_ended_like_any_other(
    service: BookingService, clock: FakeClock
) -> None:
    record = service.create(ROOT, a_request())
    clock.advance(DAY)
    assert service.release(ROOT, record.id).waived is False


# --- maintenance -------------------------------------------------------------------------------------


def a_block(service: BookingService, **more: Any) -> Any:
    fields: dict[str, Any] = {"node": "n0", "start": day(1), "end": day(3), "reason": "new fans"}
    return service.add_block(ROOT, **{**fields, **more})


def test_blocked_gpus_cannot_be_booked_until_the_block_is_removed(service: BookingService) -> None:
    block = a_block(service)
    assert (block.node, block.start, block.end, block.created_by) == ("n0", day(1), day(3), "root")
    assert service.blocks(ALICE) == (block,)
    assert rules(lambda: service.create(ALICE, a_request(day(2), count=3))) == ["capacity"]
    assert service.create(BOB, a_request(day(2), count=2)).plan[0].node == "n1"
    assert service.remove_block(ROOT, block.id, reason="fans are in") == block
    assert service.blocks(ALICE) == ()
    assert service.create(ALICE, a_request(day(2), count=3)).plan[0].node == "n0"
    assert [entry[1] for entry in audited(service)] == [
        "booking.create",
        "block.remove",
        "booking.create",
        "block.add",
    ]


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"node": "n9"}, "unknown-node"),
        ({"node": "x" * 100_000}, "unknown-node"),
        ({"model": "H100"}, "unknown-model"),
        ({"model": A6000}, "not-on-this-node"),
        ({"count": 0}, "count-below-one"),
        ({"count": 10**9}, "more-than-a-node-has"),
        ({"reason": ""}, "no-reason"),
        ({"reason": "why\0not"}, "not-a-reason"),
        ({"reason": "\u202etoh si ti"}, "not-a-reason"),
        ({"end": datetime(9999, 1, 1, tzinfo=UTC)}, "too-far-ahead"),
        ({"end": day(1)}, "ends-before-it-starts"),
        ({"start": day(-3), "end": day(-1)}, "ends-in-the-past"),
        ({"end": day(3).replace(tzinfo=None)}, "no-offset"),
    ],
)
def test_impossible_maintenance_is_refused(
    service: BookingService, store: Store, more: dict[str, Any], rule: str
) -> None:
    assert rule in rules(lambda: a_block(service, **more))
    assert (store.change(), service.blocks(ROOT)) == (0, ())


def test_maintenance_that_began_in_the_past_begins_now(service: BookingService) -> None:
    assert a_block(service, start=day(-1)).start == START


# --- exemptions --------------------------------------------------------------------------------------


def an_exemption(service: BookingService, **more: Any) -> Any:
    fields: dict[str, Any] = {
        "user": "alice",
        "start": day(0),
        "end": day(10),
        "limits": {"longest": "P30D"},
        "reason": "a deadline",
    }
    return service.add_exemption(ROOT, **{**fields, **more})


def test_an_exemption_holds_only_for_its_user_and_its_time(service: BookingService, clock: FakeClock) -> None:
    exemption = an_exemption(service)
    request = a_request(day(1), day(21))
    assert service.dry_run_create(ALICE, request).is_accepted
    assert service.dry_run_create(ROOT, request, user="alice").is_accepted
    assert not service.dry_run_create(BOB, request).is_accepted
    assert service.limits(ALICE)["longest"] == "P30D"
    assert service.limits(BOB)["longest"] == "P14D"
    assert service.exemptions(ALICE).entries == (exemption,) == service.exemptions(ROOT).entries
    assert service.exemptions(BOB).entries == ()
    clock.advance(10 * DAY)
    assert not service.dry_run_create(ALICE, a_request(day(11), day(31))).is_accepted
    assert service.exemptions(ROOT).entries == ()


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"limits": {}}, "not-a-limit"),
        ({"limits": {"longest": "for ever"}}, "not-a-limit"),
        ({"limits": {"nothing": 1}}, "not-a-limit"),
        ({"model": "H100"}, "unknown-model"),
        ({"user": ""}, "not-a-user"),
        ({"reason": "\n"}, "no-reason"),
        ({"start": day(11)}, "ends-before-it-starts"),
        ({"start": day(-9), "end": day(-1)}, "ends-in-the-past"),
    ],
)
def test_an_impossible_exemption_is_refused(service: BookingService, more: dict[str, Any], rule: str) -> None:
    assert rule in rules(lambda: an_exemption(service, **more))
    assert (service.exemptions(ROOT).entries, audited(service)) == ((), [])


# --- permissions -------------------------------------------------------------------------------------


def test_only_administrators_may_administer(service: BookingService, store: Store) -> None:
    block, exemption = a_block(service), an_exemption(service)
    calls: list[Callable[[], object]] = [
        lambda: service.add_block(ALICE, node="n0", start=day(1), end=day(2), reason="because"),
        lambda: service.remove_block(ALICE, block.id),
        lambda: service.exemptions(BOB, user="alice"),
        lambda: service.add_exemption(
            ALICE, user="alice", start=day(0), end=day(9), limits={"longest": "P30D"}, reason="because"
        ),
        lambda: service.remove_exemption(ALICE, exemption.id),
        lambda: service.audit(ALICE),
        lambda: service.denied(ALICE),
        lambda: service.evict(ALICE, "team", "pod", "because"),
    ]
    change = store.change()
    for call in calls:
        with pytest.raises(NotAllowedError, match="Only administrators may"):
            call()
    assert store.change() == change


@pytest.mark.parametrize("dry_run", [True, False], ids=["tried", "done"])
@pytest.mark.parametrize(
    ("reason", "rule"),
    [("", "no-reason"), (" \t", "no-reason"), ("x" * 501, "reason-too-long"), ("a\x00b", "not-a-reason")],
    ids=["empty", "blank", "too long", "with a NUL"],
)
def test_a_reason_for_a_removal_is_optional_but_must_be_valid(
    service: BookingService, reason: str, rule: str, *, dry_run: bool
) -> None:
    block, exemption = a_block(service), an_exemption(service)
    before = audited(service)
    assert rules(lambda: service.remove_block(ROOT, block.id, reason=reason, dry_run=dry_run)) == [rule]
    assert rules(lambda: service.remove_exemption(ROOT, exemption.id, reason=reason, dry_run=dry_run)) == [
        rule
    ]
    assert (service.blocks(ROOT), service.exemptions(ROOT).entries) == ((block,), (exemption,))
    assert audited(service) == before


def test_the_reason_for_a_removal_is_audited_without_surrounding_blanks(
    service: BookingService,
) -> None:
    block, exemption = a_block(service), an_exemption(service)
    service.remove_block(ROOT, block.id, reason=" they turn ")
    service.remove_exemption(ROOT, exemption.id, reason="handed in\n")
    assert [entry[3] for entry in audited(service)[:2]] == ["handed in", "they turn"]
