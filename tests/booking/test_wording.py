from datetime import datetime, timedelta, timezone

import pytest

from booking import wording
from cluster.fake.clock import START


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (timedelta(0), "0 seconds"),
        (timedelta(seconds=1), "1 second"),
        (timedelta(days=14), "14 days"),
        (timedelta(days=13, hours=23, minutes=59, seconds=59), "13 days 23 hours 59 minutes 59 seconds"),
        (timedelta(days=1, minutes=1), "1 day 1 minute"),
    ],
)
def test_a_length_is_written_in_words(length: timedelta, words: str) -> None:
    assert wording.span(length) == words


def test_an_instant_is_written_in_utc_with_seconds_only_if_there_are_any() -> None:
    stockholm = timezone(timedelta(hours=1))
    assert wording.instant(datetime(2026, 3, 2, 10, 0, tzinfo=stockholm)) == "2026-03-02 09:00 UTC"
    assert wording.instant(START + timedelta(seconds=7)) == "2026-03-02 09:00:07 UTC"


def test_programs_get_iso_8601() -> None:
    assert wording.iso(START) == "2026-03-02T09:00:00Z"
    assert wording.iso(timedelta(days=14, seconds=1)) == "P14DT1S"


def test_foreign_text_is_quoted_on_one_line_and_cut() -> None:
    assert wording.quoted("a\nb") == r"'a\nb'"
    assert len(wording.quoted("x" * 1000)) < 100


def test_one_gpu_is_written_in_the_singular() -> None:
    assert [wording.counted(number, "GPU") for number in (0, 1, 2)] == ["0 GPUs", "1 GPU", "2 GPUs"]


def test_the_verb_agrees_with_the_number_of_gpus() -> None:
    assert [wording.requested(number) for number in (1, 2)] == ["1 is asked for", "2 are asked for"]
