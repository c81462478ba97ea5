"""Since when a pod's work is lost, at the edges."""

import pytest

from cluster import names
from cluster.decide.eviction.costs import SECOND, Work, microseconds, work_of
from tests.fakes.objects import EPOCH, a_pod

NOW = 1000


@pytest.mark.parametrize(
    ("work", "saved"),
    [
        (Work(), NOW),
        (Work(start=400), 400),
        (Work(start=NOW + 1), NOW),
        (Work(start=400, checkpoint=600), 600),
        (Work(start=400, checkpoint=300), 400),
        (Work(start=400, checkpoint=NOW + 1), NOW),
        (Work(start=400, done=700), 700),
        (Work(start=400, done=NOW), NOW),
        (Work(start=400, done=NOW + 1), 400),
        (Work(start=400, done=300), 400),
        (Work(start=400, checkpoint=600, done=500), 600),
        (Work(start=400, checkpoint=500, done=600), 600),
        (Work(start=0, checkpoint=0, done=0), 0),
        (Work(checkpoint=600), NOW),
    ],
)
def test_work_is_saved_up_to_the_newest_believable_instant(work: Work, saved: int) -> None:
    assert work.saved(NOW) == saved
    assert work.latest is None or work.latest >= saved or saved == NOW


@pytest.mark.parametrize(
    ("work", "latest"),
    [
        (Work(), None),
        (Work(checkpoint=600, done=700), None),
        (Work(start=400), 400),
        (Work(start=400, checkpoint=600), 600),
        (Work(start=400, done=700), 700),
        (Work(start=400, checkpoint=900, done=700), 900),
        (Work(start=800, checkpoint=600, done=700), 800),
    ],
)
def test_the_latest_instant_up_to_which_work_can_be_saved(work: Work, latest: int | None) -> None:
    assert work.latest == latest


@pytest.mark.parametrize(("start", "since"), [(None, NOW), (400, 400), (NOW, NOW), (NOW + 1, NOW)])
def test_a_pod_has_started_by_now_at_the_latest(start: int | None, since: int) -> None:
    assert Work(start=start).since(NOW) == since


@pytest.mark.parametrize(
    ("gpus", "restart", "lost"), [(0, 5, 0), (1, 0, 600), (3, 0, 1800), (3, 5, 1815), (1, 5, 605)]
)
def test_every_device_loses_the_time_since_and_the_time_to_restart(
    gpus: int, restart: int, lost: int
) -> None:
    assert Work(start=400).lost(gpus, NOW, restart) == lost


def test_a_second_has_a_million_microseconds() -> None:
    later = EPOCH.replace(second=1, microsecond=7)

    assert microseconds(later) - microseconds(EPOCH) == SECOND + 7


def test_a_pod_without_annotations_or_status_has_no_work_and_was_never_evicted() -> None:
    assert work_of(a_pod().asks(1).on("n0").obj) == Work()


def test_every_annotation_about_work_is_read() -> None:
    pod = (
        a_pod()
        .with_annotation(names.CHECKPOINT_AT, "2026-11-23T09:00:01Z")
        .with_annotation(names.CHECKPOINT_DONE, "2026-11-23T09:00:02Z")
        .with_annotation(names.EVICTIONS, "2")
    )
    epoch = microseconds(EPOCH)

    assert work_of(pod.obj) == Work(checkpoint=epoch + SECOND, done=epoch + 2 * SECOND, evictions=2)
