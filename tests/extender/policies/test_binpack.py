"""The order of nodes that binpack documents."""

from hypothesis import given
from hypothesis import strategies as st

from extender.policies import NOTHING
from extender.policies.binpack import binpack
from extender.wire import MAX_SCORE
from tests.extender.policies.node_views import asking, fills, plain

NEEDS = st.integers(1, 4)


@given(NEEDS, st.data())
def test_the_fuller_node_never_scores_lower(need: int, data: st.DataObject) -> None:
    (one_has, one_uses), (other_has, other_uses) = data.draw(fills(need)), data.draw(fills(need))
    fuller = (one_uses + need) * other_has >= (other_uses + need) * one_has
    one, other = plain(one_has, one_uses), plain(other_has, other_uses)
    request = asking(need)
    if not fuller:
        one, other = other, one

    assert binpack(request, one, NOTHING) >= binpack(request, other, NOTHING)


@given(NEEDS, st.data())
def test_a_node_that_the_pod_fills_up_scores_highest(need: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(need, 16))

    assert binpack(asking(need), plain(count, count - need), NOTHING) == MAX_SCORE


def test_a_node_with_nothing_that_the_pod_accepts_scores_zero() -> None:
    assert binpack(asking(1), plain(0, 0), NOTHING) == 0


@given(NEEDS, st.data())
def test_kube_scheduler_accepts_every_score(need: int, data: st.DataObject) -> None:
    node = plain(*data.draw(fills(need)))

    assert 0 <= binpack(asking(need), node, NOTHING) <= MAX_SCORE
