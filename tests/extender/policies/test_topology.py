"""topology: linked devices stay together, and on one NUMA node."""

from collections.abc import Iterable
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.decide.ledger import NodeView
from cluster.decide.placement import choose
from cluster.decide.request import gpu_request_of
from cluster.objects.assignment import devices_of
from extender.policies import NOTHING
from extender.policies.topology import FAR, topology
from extender.wire import MAX_SCORE
from tests.extender.policies.node_views import asking, devices, meshed, plain, view
from tests.fakes.objects import a_pod

TWO_HALVES = [0, 0, 0, 0, 1, 1, 1, 1]


def score(need: int, node: NodeView) -> int:
    return topology(asking(need), node, NOTHING)


def test_of_two_equal_nodes_the_one_with_room_on_one_numa_node_scores_higher() -> None:
    one_side = view(devices({}, TWO_HALVES), frozenset({0, 1, 4, 5, 6}))
    both_sides = view(devices({}, TWO_HALVES), frozenset({0, 1, 2, 4, 5, 6}))

    assert score(2, one_side) > score(2, both_sides)


def test_a_node_with_too_few_devices_and_a_pod_without_gpus_score_zero() -> None:
    assert score(3, plain(4, 2)) == 0
    assert score(0, plain(4, 2)) == 0


def test_devices_of_an_unknown_numa_node_do_not_count_as_near() -> None:
    known, unknown = devices(meshed(2), [0, 0]), devices(meshed(2), [None, None])

    assert score(2, view(known)) == MAX_SCORE
    assert score(2, view(unknown)) == MAX_SCORE - FAR


def test_the_choice_with_every_fault_has_the_lowest_score_that_kube_scheduler_accepts() -> None:
    across = {0: {2: 4, 3: 4}, 1: {2: 4, 3: 4}}
    node = view(devices(across, [0, 1, 0, 1]))
    these = gpu_request_of(a_pod().asks(2).with_annotation(names.UUID, "GPU-n-0,GPU-n-1").obj)

    assert topology(these, node, NOTHING) == 0


LINKS = st.dictionaries(
    st.integers(0, 5), st.dictionaries(st.integers(0, 5), st.integers(1, 12), max_size=3), max_size=6
)


def linked(node: NodeView, pair: Iterable[str]) -> bool:
    one, other = pair
    links = {device.uuid: device.links or {} for device in node.devices}
    return other in links[one] or one in links[other]


@given(LINKS, st.lists(st.sampled_from([0, 1, None]), min_size=6, max_size=6), st.integers(1, 6))
def test_only_a_linked_choice_on_one_numa_node_that_breaks_no_link_has_the_highest_score(
    links: dict[int, dict[int, int]], numa: list[int | None], need: int
) -> None:
    node = view(
        devices({at: {to: n for to, n in ends.items() if to != at} for at, ends in links.items()}, numa)
    )
    taken = devices_of(choose(asking(need), node))
    places = {device.numa for device in node.devices if device.uuid in taken}
    left = {device.uuid for device in node.devices} - taken
    all_linked = all(linked(node, pair) for pair in combinations(sorted(taken), 2))
    near = need == 1 or (len(places) == 1 and None not in places)
    alone = not any(linked(node, (one, other)) for one in taken for other in left)

    assert (score(need, node) == MAX_SCORE) == (all_linked and near and alone)
    assert 0 <= score(need, node) <= MAX_SCORE
