"""Which GPUs are opened for waiting pods: as few as hold them, and none where they find room elsewhere."""

from collections.abc import Iterable

from booking.controller.reclaimer.reservations.needed import Needed, needed
from cluster.decide.ledger import Ledger
from cluster.decide.request import gpu_request_of
from cluster.objects.reservation_pods import visible_key
from tests.cluster.decide.test_opened_gpus import CLOSING, OPEN, ROOM, reservation, share, view
from tests.fakes.objects import PodBuilder, a_node, a_pod, shared_gpu


def found(waiting: Iterable[PodBuilder], *there: PodBuilder, **how: frozenset[str]) -> Needed:
    pods = [(one.obj, gpu_request_of(one.obj)) for one in waiting]
    return needed(pods, {"n0": (view(*there), "alive")}, suits=lambda _pod, _node: True, **how)


def test_pods_that_fit_together_need_one_gpu_and_others_another() -> None:
    half = ROOM // 2
    assert found([share("a", half)]).free == {"n0-0": "n0"}
    assert found([share("a", half), share("b", half)]).free == {"n0-0": "n0"}
    assert found([share("a", half), share("b", half), share("c", half)]).free == {"n0-0": "n0", "n0-1": "n0"}


def test_room_on_gpus_that_are_open_or_about_to_be_is_used_first() -> None:
    for there in (OPEN, reservation(), CLOSING):
        assert found([share("a")], there) == Needed(frozenset({"n0-0"}))
    assert found([share("a")], unplaced=frozenset({"n0-1"})).free == {"n0-1": "n0"}


def test_pods_of_one_kind_are_looked_at_together_and_where_nothing_fits_not_node_by_node() -> None:
    views = {name: (view(), "alive") for name in ("n0", "n1", "n2")}
    for memory, most in ((ROOM, 2 * 3), (ROOM + 1, 0)):
        asked: list[str] = []
        pods = [(one.obj, gpu_request_of(one.obj)) for one in (share(f"p{n}", memory) for n in range(20))]
        needed(pods, views, suits=lambda _pod, node, asked=asked: not asked.append(node))
        assert len(asked) == most


def test_nothing_is_opened_where_it_would_be_of_no_use() -> None:
    whole = [a_pod(f"w{n}").asks(1).on("n0", {"main": (f"n0-{n}",)}) for n in range(2)]
    assert found([share("a")], *whole) == Needed()
    assert found([share("a", ROOM + 1)]) == Needed()
    assert found([share("a")], barred=frozenset({"n0"})) == Needed()


def test_shares_of_two_gpus_need_two() -> None:
    pair = a_pod("p").shares(memory=1000, gpus=2).with_annotation(visible_key("main"), "")
    assert found([pair]).free == {"n0-0": "n0", "n0-1": "n0"}
    assert found([pair], OPEN) == Needed(frozenset({"n0-0"}), {"n0-1": "n0"})


def test_a_pod_that_fits_where_the_agent_gives_out_gpus_needs_none() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n1", shared_gpu(0, "n1")))
    pod = share("a").obj
    views = {"n0": (view(), "alive"), "n1": (ledger.view("n1"), "alive")}
    assert needed([(pod, gpu_request_of(pod))], views, suits=lambda _pod, _node: True) == Needed()
