"""Annotations that cannot be read are reported."""

import pytest

from booking.controller.admission.annotation_checks import ON_EVICT, unreadable
from booking.controller.reclaimer.evictions.comeback import COMEBACK_BY_ANNOTATION
from cluster import names
from tests.booking.controller.admission.fake_cluster_view import a_pod, reviewed


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (names.CHECKPOINT_AT, "2026-11-23T09:00:00Z"),
        (names.CHECKPOINT_AT, " 2026-11-23T10:00:00.5+01:00 "),
        (names.CHECKPOINT_AT, "1795000000"),
        (names.CHECKPOINT_DONE, "2026-11-23T09:00:00Z"),
        (names.REQUESTED_NOTICE, "PT5M"),
        (names.REQUESTED_NOTICE, "PT0S"),
        (names.ON_EVICT, "recreate-without-gpu"),
        (names.ON_EVICT, "requeue"),
        (names.ON_EVICT, "delete"),
        *((names.PLACEMENT, policy) for policy in names.PLACEMENTS),
        (names.MODEL, "whatever"),
        (names.MIN_MEMORY, "40Gi"),
        (names.MIN_MEMORY, " 40960 "),
        ("note", "whatever"),
    ],
)
def test_a_readable_value_is_not_mentioned(key: str, text: str) -> None:
    assert list(unreadable({key: text})) == []


@pytest.mark.parametrize(
    ("key", "text", "hint"),
    [
        (names.MIN_MEMORY, "plenty", "a number of MiB such as 40960 or an amount such as 40Gi"),
        (names.CHECKPOINT_AT, "yesterday", "an instant such as 2026-11-27T17:00:00Z"),
        (names.CHECKPOINT_AT, "2026-11-23T09:00:00", "an instant such as 2026-11-27T17:00:00Z"),
        (names.CHECKPOINT_DONE, "yes", "an instant such as 2026-11-27T17:00:00Z"),
        (names.CHECKPOINT_DONE, "1795000000", "an instant such as 2026-11-27T17:00:00Z"),
        (names.REQUESTED_NOTICE, "300", "a duration such as PT5M"),
        (names.REQUESTED_NOTICE, "5m", "a duration such as PT5M"),
        (names.REQUESTED_NOTICE, "-PT5M", "a duration such as PT5M"),
        (names.ON_EVICT, "stay", "one of recreate-without-gpu, requeue, delete"),
        (names.PLACEMENT, "anywhere", "one of binpack, spread, topology, booked-reserve"),
        (names.ON_EVICT, "", "one of recreate-without-gpu, requeue, delete"),
    ],
)
def test_an_unreadable_value_is_reported_with_a_hint(key: str, text: str, hint: str) -> None:
    (message,) = unreadable({key: text})
    assert message == f"{key} is {hint}, not {text!r}: ignored."


def test_the_accepted_values_for_an_eviction_are_those_of_the_reclaimer() -> None:
    assert set(ON_EVICT) == COMEBACK_BY_ANNOTATION.keys()


def test_the_creator_of_a_pod_is_warned_about_an_unreadable_value() -> None:
    _, outcome = reviewed(a_pod(annotations={names.REQUESTED_NOTICE: "5m"}))
    assert len(outcome.warnings) == 2
    assert outcome.warnings[1].startswith(f"{names.REQUESTED_NOTICE} is a duration")


def test_a_pod_without_gpus_is_not_checked() -> None:
    _, outcome = reviewed(a_pod(gpus=0, annotations={names.REQUESTED_NOTICE: "5m"}))
    assert outcome.warnings == ()
