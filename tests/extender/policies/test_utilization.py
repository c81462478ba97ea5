"""How full a node is with a pod on it: what binpack and spread go by."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.decide.request import gpu_request_of
from extender.policies.utilization import Utilization, utilization
from tests.extender.policies.node_views import asking, devices, fills, plain, view
from tests.fakes.objects import a100, a_pod


@pytest.mark.parametrize(
    ("used", "need", "free"),
    [(0, 1, 3), (0, 4, 0), (1, 1, 2), (3, 1, 0), (4, 1, 0)],
    ids=["an empty node", "all of it", "some", "the last", "none is left"],
)
def test_utilization_is_counted_with_the_pod_on_the_node(used: int, need: int, free: int) -> None:
    assert utilization(asking(need), plain(4, used)) == Utilization(devices=4, free=free)


@given(st.integers(1, 4), st.integers(0, 4), st.data())
def test_unaccounted_devices_are_in_use(need: int, unknown: int, data: st.DataObject) -> None:
    has, used = data.draw(fills(need + unknown))
    found = utilization(asking(need), plain(has, used, unknown))
    assert found == utilization(asking(need), plain(has, used + unknown))


def test_unaccounted_devices_of_one_resource_leave_the_free_ones_of_another_alone() -> None:
    part = f"{names.MIG_RESOURCE_PREFIX}1g.10gb"
    both = gpu_request_of(a_pod().asks(1).asks(1, resource=part, container="side").obj)
    has = (*devices({}, [None] * 4), a100(4, "n", resource=part), a100(5, "n", resource=part))

    assert utilization(both, view(has, unknown=2, unknown_of=part)) == Utilization(devices=6, free=2)
    assert utilization(both, view(has, unknown=3, unknown_of=part)) == Utilization(devices=6, free=2)


def test_only_devices_that_the_pod_accepts_count() -> None:
    node = view((*devices({}, [None] * 2), a100(2, "n", memory=40_960)))
    choosy = gpu_request_of(a_pod().asks(1).with_annotation(names.MIN_MEMORY, "60Gi").obj)
    assert utilization(choosy, node) == Utilization(devices=2, free=1)
