"""Devices that a nominated pod needs are not given to another."""

from itertools import product

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.decide import predicates
from cluster.decide.available import reserved
from cluster.decide.ledger import Ledger
from cluster.decide.placement import choose
from cluster.decide.predicates import rejection
from cluster.decide.request import gpu_request_of
from cluster.objects.assignment import devices_of
from cluster.objects.pods import Pod
from tests.fakes.objects import A100, A6000, PodBuilder, a100, a6000, a_node, a_pod

DEVICES = (a100(0), a100(1), a6000(2))
MODELS = {device.uuid: device.model for device in DEVICES}


def of_priority(pod: PodBuilder, priority: int, *, nominated: str | None = None) -> Pod:
    made = pod.obj
    return msgspec.structs.replace(
        made,
        spec=msgspec.structs.replace(made.spec, priority=priority),
        status=msgspec.structs.replace(made.status, nominated_node_name=nominated),
    )


def a_ledger(*pods: Pod) -> Ledger:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *DEVICES))
    for pod in pods:
        ledger.apply_pod(pod)
    return ledger


def why(pod: Pod, ledger: Ledger) -> str | None:
    return rejection(gpu_request_of(pod), ledger.view("n0"), "alive")


NOMINATED = of_priority(a_pod("first").asks(2), 10, nominated="n0")


def test_a_nominated_pod_s_devices_are_not_given_to_a_pod_of_the_same_or_lower_priority() -> None:
    ledger = a_ledger(NOMINATED)
    assert why(of_priority(a_pod().asks(2), 9), ledger) == predicates.NOMINATED
    assert why(of_priority(a_pod().asks(2), 10), ledger) == predicates.NOMINATED
    assert why(of_priority(a_pod().asks(1), 10), ledger) is None
    assert why(of_priority(a_pod().asks(2), 11), ledger) is None
    assert why(NOMINATED, ledger) is None


def test_another_device_is_chosen_where_the_nominated_pod_needs_this_one() -> None:
    picky = of_priority(a_pod("first").asks(1).wants(A6000), 10, nominated="n0")
    ledger, pod = a_ledger(picky), a_pod().asks(1).obj
    # Without the other it would be the A6000, of which the fewest are left.
    assert devices_of(choose(gpu_request_of(pod), a_ledger().view("n0"))) == {"GPU-n0-2"}
    assert devices_of(choose(gpu_request_of(pod), ledger.view("n0"))) == {"GPU-n0-0"}


def test_a_nomination_ends_with_the_bind_the_hold_or_the_pod() -> None:
    pod = of_priority(a_pod().asks(3).wants(A100, A6000), 0)
    ledger = a_ledger(NOMINATED)
    assert why(pod, ledger) == predicates.NOMINATED
    ledger.assume(NOMINATED, "elsewhere", {"main": ("GPU-x",)})
    assert why(pod, ledger) is None
    ledger.forget_assumed("uid-first")
    assert why(pod, ledger) == predicates.NOMINATED
    ledger.apply_pod(a_pod("first").asks(2).kept("n1", "GPU-n1-0").at(2).obj)
    assert why(pod, ledger) is None
    ledger.apply_pod(msgspec.structs.replace(NOMINATED, metadata=a_pod("first").at(3).obj.metadata))
    assert why(pod, ledger) == predicates.NOMINATED
    ledger.forget_pod("uid-first", "4")
    assert why(pod, ledger) is None


_POD = st.tuples(st.integers(1, 2), st.sampled_from((None, A100, A6000)))


@given(st.lists(_POD, max_size=3), _POD)
def test_as_many_devices_are_reserved_as_nominated_pods_can_get_leaving_the_most_for_others(
    ahead: list[tuple[int, str | None]], last: tuple[int, str | None]
) -> None:
    def made(name: str, requested: tuple[int, str | None]) -> PodBuilder:
        return a_pod(name).asks(requested[0]).wants(*filter(None, (requested[1],)))

    pods = [of_priority(made(f"p{n}", one), 0, nominated="n0") for n, one in enumerate(ahead)]
    view, request = a_ledger(*pods).view("n0"), gpu_request_of(made("last", last).obj)
    kept = reserved(request, view, names.GPU_RESOURCE)
    takers = [model for count, model in ahead for _ in range(count)]
    ways = [
        (len(given), {MODELS[uuid] for uuid in MODELS.keys() - given.keys()}, MODELS.keys() - given.keys())
        for places in product((None, *MODELS), repeat=len(takers))
        if (given := _served(places, takers)) is not None
    ]
    most = max(many for many, _, _ in ways)
    left = max(
        min(last[0], sum(last[1] in (None, MODELS[uuid]) for uuid in rest))
        for many, _, rest in ways
        if many == most
    )
    assert len(kept) == most
    assert min(last[0], sum(last[1] in (None, MODELS[u]) for u in MODELS.keys() - kept)) == left


def _served(places: tuple[str | None, ...], takers: list[str | None]) -> dict[str, int] | None:
    """Device -> taker; None where two takers have one device, or a device is of another model than wanted."""
    given: dict[str, int] = {}
    for number, (place, model) in enumerate(zip(places, takers, strict=True)):
        if place is None:
            continue
        if place in given or model not in (None, MODELS[place]):
            return None
        given[place] = number
    return given
