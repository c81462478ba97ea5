"""When a victim must leave: its notice, the notice that it requests, and the mark that its work is saved."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.controller.reclaimer.holds.notice_due import Notice, has_saved, is_due, notice_seconds
from booking.eviction.settings import EvictionSettings
from cluster import names
from cluster.kube.clock_skew import LARGEST_SKEW
from cluster.objects.pods import Pod
from tests.fakes.objects import EPOCH, a_pod

SECONDS = st.floats(0, 10_000, allow_nan=False)
GARBAGE = ["", "5 minutes", "300", "PT", "-PT5M", "P1Y", "PT5M, please", "null", "P99999999999D"]


def victim(**annotations: str) -> Pod:
    keys = {"requested": names.REQUESTED_NOTICE, "done": names.CHECKPOINT_DONE}
    builder = a_pod("b").of("bob").asks(1)
    for name, text in annotations.items():
        builder = builder.with_annotation(keys[name], text)
    return builder.obj


def timestamp(instant: datetime) -> str:
    """As ``date -u +%Y-%m-%dT%H:%M:%SZ`` writes it."""
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


@given(policy=SECONDS, longest=SECONDS, requested=st.integers(0, 20_000))
def test_the_longer_of_policy_and_request_counts_with_the_request_capped_at_the_limit(
    policy: float, longest: float, requested: int
) -> None:
    seconds = notice_seconds(
        victim(requested=f"PT{requested}S"),
        EvictionSettings(notice_seconds=policy, longest_notice_seconds=longest),
    )
    assert seconds >= policy
    assert seconds == max(policy, min(float(requested), longest))


@given(policy=SECONDS, longest=SECONDS, requested=st.text(max_size=12) | st.sampled_from(GARBAGE))
def test_any_request_gives_at_least_the_policys_notice_and_at_most_the_limit(
    policy: float, longest: float, requested: str
) -> None:
    terms = EvictionSettings(notice_seconds=policy, longest_notice_seconds=longest)
    assert policy <= notice_seconds(victim(requested=requested), terms) <= max(policy, longest)


@pytest.mark.parametrize("requested", GARBAGE)
def test_an_unreadable_request_is_ignored(requested: str) -> None:
    assert notice_seconds(victim(requested=requested), EvictionSettings(notice_seconds=7)) == 7


@pytest.mark.parametrize(
    ("requested", "seconds"), [("PT5M", 300), (" PT90S\n", 90), ("P1D", 600), ("PT0S", 7)]
)
def test_a_request_is_an_iso_8601_duration(requested: str, seconds: float) -> None:
    assert notice_seconds(victim(requested=requested), EvictionSettings(notice_seconds=7)) == seconds


@given(over=SECONDS, after=st.floats(-10_000, 10_000, allow_nan=False), done=st.booleans())
def test_a_victim_is_due_only_when_its_time_is_over_or_its_work_is_saved(
    over: float, after: float, *, done: bool
) -> None:
    notice = Notice(text="", given=EPOCH, over=over, ahead=True)
    pod = victim(done=timestamp(EPOCH)) if done else victim()
    due = is_due(pod, notice, monotonic=over + after, now=EPOCH + timedelta(seconds=1))
    assert due == (over + after >= over or done)


@given(offset=st.integers(-100_000, 100_000), later=st.integers(0, 100_000), micro=st.integers(0, 999_999))
def test_work_counts_as_saved_only_from_the_notice_on_and_not_in_the_future(
    offset: int, later: int, micro: int
) -> None:
    noticed = EPOCH + timedelta(microseconds=micro)
    now, done = noticed + timedelta(seconds=later), EPOCH + timedelta(seconds=offset)
    assert has_saved(victim(done=timestamp(done)), noticed, now) == (
        offset >= 0 and done <= now + LARGEST_SKEW
    )


def test_work_saved_in_the_second_of_the_notice_counts_since_pods_write_whole_seconds() -> None:
    noticed = EPOCH + timedelta(milliseconds=900)
    assert has_saved(victim(done=timestamp(noticed)), noticed, noticed + timedelta(milliseconds=50))


@pytest.mark.parametrize("text", ["", "now", "true", "2026-11-23", "2026-11-23T09:00:00", "1763888400"])
def test_an_unreadable_mark_or_one_without_a_zone_does_not_count_as_saved(text: str) -> None:
    assert not has_saved(victim(done=text), EPOCH - timedelta(days=1), EPOCH + timedelta(days=1))


@given(text=st.text(max_size=30), later=st.integers(-(10**8), 10**8))
def test_only_a_mark_that_starts_with_a_year_counts_as_saved(text: str, later: int) -> None:
    is_saved = has_saved(victim(done=text), EPOCH, EPOCH + timedelta(seconds=later))
    assert not is_saved or text.strip()[:4].isdecimal()
