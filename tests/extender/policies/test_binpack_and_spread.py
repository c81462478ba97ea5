"""What binpack and spread promise about the order of nodes."""

from hypothesis import given
from hypothesis import strategies as st

from extender.policies import NOTHING
from extender.policies.binpack import binpack
from extender.policies.spread import spread
from extender.wire import MAX_SCORE
from tests.extender.policies.land import asking, fills, plain

NEEDS = st.integers(1, 4)


@given(NEEDS, st.data())
def test_the_fuller_node_is_never_the_worse_one_by_binpack_nor_the_better_one_by_spread(
    need: int, data: st.DataObject
) -> None:
    (one_has, one_uses), (other_has, other_uses) = data.draw(fills(need)), data.draw(fills(need))
    fuller = (one_uses + need) * other_has >= (other_uses + need) * one_has
    one, other = plain(one_has, one_uses), plain(other_has, other_uses)
    request = asking(need)
    if not fuller:
        one, other = other, one

    assert binpack(request, one, NOTHING) >= binpack(request, other, NOTHING)
    assert spread(request, one, NOTHING) <= spread(request, other, NOTHING)


@given(NEEDS, st.data())
def test_a_node_that_the_pod_fills_up_is_best_by_binpack_and_worst_by_spread(
    need: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(need, 16))
    full, request = plain(count, count - need), asking(need)

    assert binpack(request, full, NOTHING) == MAX_SCORE
    assert spread(request, full, NOTHING) == 0


@given(NEEDS, st.integers(0, 4), st.data())
def test_devices_of_which_nobody_has_said_who_holds_them_are_in_use(
    need: int, unknown: int, data: st.DataObject
) -> None:
    has, used = data.draw(fills(need + unknown))
    node, same, request = plain(has, used, unknown), plain(has, used + unknown), asking(need)

    assert binpack(request, node, NOTHING) == binpack(request, same, NOTHING)
    assert spread(request, node, NOTHING) == spread(request, same, NOTHING)


@given(NEEDS, st.data())
def test_every_score_is_one_that_kube_scheduler_accepts(need: int, data: st.DataObject) -> None:
    node, request = plain(*data.draw(fills(need))), asking(need)

    assert 0 <= binpack(request, node, NOTHING) <= MAX_SCORE
    assert 0 <= spread(request, node, NOTHING) <= MAX_SCORE
