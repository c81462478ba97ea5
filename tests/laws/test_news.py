"""What watches have had to tell, and when."""

from datetime import datetime, timedelta

import pytest

from cluster import names
from cluster.kube.resources import Object
from cluster.objects.meta import Meta
from cluster.objects.nodes import Lease
from tests.fakes.objects import EPOCH, a_booking, a_node, a_pod
from tests.laws.changes import Change
from tests.laws.news import LONGEST, News


def change(plural: str, *, before: Object | None, after: Object | None, version: int, at: datetime) -> Change:
    return Change(plural=plural, before=before, after=after, version=version, instant=at)


def a_lease(namespace: str) -> Lease:
    return Lease(metadata=Meta(name="x", namespace=namespace))


def seconds(number: float) -> datetime:
    return EPOCH + timedelta(seconds=number)


POD, ENDED = a_pod("a").obj, a_pod("a").ended().obj


@pytest.mark.parametrize(
    ("plural", "before", "after", "is_news"),
    [
        ("nodes", None, a_node("n0"), True),
        ("bookings", a_booking("b-1"), None, True),
        ("leases", None, a_lease(names.NAMESPACE), True),
        ("leases", None, a_lease("kube-system"), False),
        ("pods", None, POD, True),
        ("pods", POD, ENDED, True),
        ("pods", POD, None, True),
        ("pods", ENDED, ENDED, False),
        ("pods", ENDED, None, False),
    ],
)
def test_what_the_reclaimer_is_told_of_is_news(
    plural: str, before: Object | None, after: Object | None, *, is_news: bool
) -> None:
    news = News()
    news.put(change(plural, before=before, after=after, version=7, at=EPOCH))
    assert news.told(plural, EPOCH) == (7 if is_news else 0)


def test_what_is_told_later_was_no_news_before() -> None:
    news = News()
    for version in range(10):
        news.put(change("pods", before=None, after=POD, version=version, at=seconds(version)))
    assert [news.told("pods", seconds(at)) for at in (-1, 0, 3.9, 4, 100)] == [0, 0, 3, 4, 9]


def test_of_one_second_no_later_write_is_taken_for_an_earlier_one() -> None:
    news = News()
    for number in range(100):
        news.put(change("pods", before=None, after=POD, version=number, at=seconds(number / 10)))
    assert all(news.told("pods", seconds(at / 10)) <= at for at in range(100))
    assert news.told("pods", seconds(9.9)) >= 90


def test_what_was_long_ago_and_what_was_before_a_list_is_forgotten() -> None:
    news = News()
    news.put(change("pods", before=None, after=POD, version=1, at=EPOCH))
    later = EPOCH + LONGEST + timedelta(seconds=1)
    news.put(change("pods", before=None, after=POD, version=2, at=later))
    assert news.told("pods", EPOCH) == 0
    assert news.told("pods", later) == 2
    news.forget("pods")
    news.forget("podtemplates")
    assert news.told("pods", later) == 0
