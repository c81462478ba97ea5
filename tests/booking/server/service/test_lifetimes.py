"""Random lives of a booking: each verb has the effect that simple arithmetic predicts, or none."""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from itertools import count
from typing import Final, Literal, NamedTuple

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.capacity.capacity import Capacity
from booking.server.errors import RefusedError
from booking.server.records import BookingChange, Record
from booking.server.service import BookingService
from booking.server.store import Store, open_store
from cluster.fake.clock import FakeClock
from tests.fakes.objects import A100
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import a_request, day

LIMITS: Final = Limits(shortest=Duration(seconds=1), longest=Duration(days=99), cooldown=Duration())
PLENTY: Final = Capacity({A100: {"n0": 10_000}})
SECOND: Final = timedelta(seconds=1)
NUMBERS: Final = count()
ROOT: Final = an_administrator()

Verb = Literal["release", "cancel", "end in"]


class Step(NamedTuple):
    """A verb, so much later."""

    seconds: int
    verb: Verb
    hours: int
    """From now on, for a new end."""
    by_owner: bool


STEPS = st.builds(
    Step,
    st.sampled_from((0, 1, 60, 3600, 86400)),
    st.sampled_from(("release", "cancel", "end in", "end in")),
    st.sampled_from((-3, -1, 0, 1, 24, 24, 48)),
    st.booleans(),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'bookings.db'}"
    with closing(open_store(url)) as opened:
        yield opened


def second_of(now: datetime) -> datetime:
    return now.replace(microsecond=0)


def given_back(before: Record, now: datetime) -> Record:
    """It ends with this second: not empty, and not later than it would have."""
    now_or_next = second_of(now) + (SECOND if now.microsecond else timedelta())
    end = min(max(now_or_next, before.start + SECOND), before.end)
    return msgspec.structs.replace(before, end=end, released=second_of(now))


def expected(before: Record, step: Step, now: datetime, user: str) -> Record | str:
    """The booking after a step, or the rule that it breaks. Written by hand from the manual."""
    by_other: dict[str, object] = {} if step.by_owner else {"ended_by": "root", "reason": "why not"}
    if before.cancelled or before.released or now >= before.end:
        return "over"
    has_begun = now >= before.start
    if step.verb == "release":
        released = given_back(before, now)
        more = {"waived": not step.by_owner, **by_other}
        return msgspec.structs.replace(released, **more) if has_begun else "not-begun"
    if step.verb == "cancel":
        cancelled = msgspec.structs.replace(before, cancelled=second_of(now), **by_other)
        return "begun" if has_begun else cancelled
    end = second_of(now) + timedelta(hours=step.hours)
    assert before.user == user
    if end <= before.start:
        return "ends-before-it-starts"
    if has_begun and end <= now:
        return msgspec.structs.replace(given_back(before, now), waived=not step.by_owner, **by_other)
    return msgspec.structs.replace(before, end=end)


def act(service: BookingService, booking: Record, step: Step, now: datetime) -> Record:
    """The step, by the owner or by an administrator."""
    who, reason = (somebody(booking.user), None) if step.by_owner else (ROOT, " why not ")
    if step.verb == "end in":
        change = BookingChange(end=second_of(now) + timedelta(hours=step.hours))
        return service.change(who, booking.id, change, reason=reason)
    end = service.release if step.verb == "release" else service.cancel
    return end(who, booking.id, reason=reason)


@example(0, 0, [Step(0, "end in", 24, by_owner=True), Step(60, "end in", 24, by_owner=False)])
@example(0, 0, [Step(60, "release", 0, by_owner=True)])
@settings(max_examples=100)
@given(st.sampled_from((0, 1, 26)), st.sampled_from((0, 0.25)), st.lists(STEPS, min_size=1, max_size=7))
def test_each_step_has_the_predicted_effect_and_is_audited(
    store: Store, starts_in: int, fraction: float, steps: list[Step]
) -> None:
    clock, user = FakeClock(), f"u{next(NUMBERS)}"
    service = BookingService(store, clock, LIMITS, lambda: PLENTY)
    start = day(starts_in / 24)
    booking = service.create(somebody(user), a_request(start, start + timedelta(hours=24)))
    done = [("booking.create", user, None)]
    clock.advance(fraction)
    for step in steps:
        clock.advance(step.seconds)
        now, change = clock.now(), store.change()
        wanted = expected(booking, step, now, user)
        if isinstance(wanted, str):
            with pytest.raises(RefusedError) as refused:
                act(service, booking, step, now)
            assert wanted in [violation.rule for violation in refused.value.violations]
            assert store.change() == change
        else:
            is_change = wanted != booking
            after = act(service, booking, step, now)
            assert after == msgspec.structs.replace(wanted, change=after.change)
            if is_change:
                verb = "release" if after.released else "cancel" if after.cancelled else "change"
                who, reason = (user, None) if step.by_owner else ("root", "why not")
                done.append((f"booking.{verb}", who, reason))
            assert (store.change(), after.change != booking.change) == (change + is_change, is_change)
            booking = after
        assert service.show(ROOT, booking.id) == booking
    entries = service.audit(ROOT, subject=booking.id).entries[::-1]
    assert [(each.action, each.actor, each.reason) for each in entries] == done
    # Each entry begins where the previous one ended.
    assert [each.before for each in entries[1:]] == [each.after for each in entries[:-1]]
    assert entries[-1].after == msgspec.json.decode(msgspec.json.encode(booking))
