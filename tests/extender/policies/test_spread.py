"""The order of nodes that spread documents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.policies import NOTHING
from extender.policies.spread import spread
from extender.wire import MAX_SCORE
from tests.extender.policies.node_views import asking, fills, plain

NEEDS = st.integers(1, 4)


@given(NEEDS, st.data())
def test_the_fuller_node_never_scores_higher(need: int, data: st.DataObject) -> None:
    (one_has, one_uses), (other_has, other_uses) = data.draw(fills(need)), data.draw(fills(need))
    fuller = (one_uses + need) * other_has >= (other_uses + need) * one_has
    one, other = plain(one_has, one_uses), plain(other_has, other_uses)
    request = asking(need)
    if not fuller:
        one, other = other, one

    assert spread(request, one, NOTHING) <= spread(request, other, NOTHING)


@given(NEEDS, st.data())
def test_a_node_that_the_pod_fills_up_scores_lowest(need: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(need, 16))

    assert spread(asking(need), plain(count, count - need), NOTHING) == 0


@pytest.mark.parametrize(
    ("used", "score"), [(0, 8), (1, 7), (5, 3), (7, 1)], ids=["empty", "nearly empty", "half full", "crowded"]
)
def test_the_score_is_the_part_of_the_devices_that_stays_free(used: int, score: int) -> None:
    assert spread(asking(2), plain(10, used), NOTHING) == score


def test_a_node_with_nothing_that_the_pod_accepts_scores_zero() -> None:
    assert spread(asking(1), plain(0, 0), NOTHING) == 0


@given(NEEDS, st.data())
def test_kube_scheduler_accepts_every_score(need: int, data: st.DataObject) -> None:
    node = plain(*data.draw(fills(need)))

    assert 0 <= spread(asking(need), node, NOTHING) <= MAX_SCORE
