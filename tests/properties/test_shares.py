"""Shares against a reference: a naive ledger of devices, and every way to place a pod's slots.

The reference knows slots as the kubelet does, and nothing of how the product counts or searches.
"""

from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.decide import share_fit
from cluster.decide.ledger import Ledger, NodeView
from cluster.decide.placement import NoPlaceError, choose, choose_shares
from cluster.decide.predicates import rejection
from cluster.decide.request import gpu_request_of
from cluster.decide.shares import place
from cluster.objects.assignment import Assignment, devices_of, readable_assignment_of
from cluster.objects.inventory import Device, Sharing
from tests.fakes.objects import A100, A6000, PodBuilder, a100, a6000, a_node, a_pod, shared_gpu

MEMORY: Final = 1000
SLOTS: Final = 4
MODES: Final = ("time-slice", "mps")
OFFER: Final = Sharing(slots=SLOTS, memory=MEMORY, modes=("time-slice", "mps"))
MIG: Final = f"{names.MIG_RESOURCE_PREFIX}1g.10gb"


@dataclass
class Gpu:
    """What pods have of one GPU."""

    whole: int = 0
    parts: list[tuple[str, int, int, str]] = field(default_factory=list)
    """Pod, MiB, percent of the compute, mode: one for each slot."""

    def takes(self, memory: int, cores: int, mode: str) -> bool:
        return (
            not self.whole
            and len(self.parts) < SLOTS
            and sum(part[1] for part in self.parts) + memory <= MEMORY
            and sum(part[2] for part in self.parts) + cores <= 100
            and all(part[3] == mode for part in self.parts)
        )


def slots(pod: PodBuilder) -> tuple[list[tuple[int, int]], dict[str, list[int]]]:
    """(MiB, percent) of each slot, and the slots of each container, as the kubelet gives them."""
    sizes: list[tuple[int, int]] = []
    of: dict[str, list[int]] = {}
    left: list[int] = []
    for one in (*pod.inits, *pod.apps):
        limits = one["resources"]["limits"]
        count = int(limits[names.SHARED_RESOURCE])
        memory = (
            int(limits.get(names.GPU_MEMORY, 0))
            or MEMORY * int(limits.get(names.GPU_MEMORY_PERCENTAGE, 100)) // 100
        )
        size = (max(1, memory), int(limits.get(names.GPU_CORES, 0)))
        mine = left[:count] + list(range(len(sizes), len(sizes) + max(0, count - len(left))))
        sizes += [(0, 0)] * (len(mine) - len(left[:count]))
        for number in mine:
            sizes[number] = (max(sizes[number][0], size[0]), max(sizes[number][1], size[1]))
        is_init = one in pod.inits and one.get("restartPolicy") != "Always"
        left = left + [n for n in mine if n not in left] if is_init else left[count:]
        of[str(one["name"])] = mine
    return sizes, of


def mode_of(pod: PodBuilder) -> str:
    return pod.annotations.get(names.SHARING_MODE, "time-slice")


def fits(pod: PodBuilder, gpus: dict[str, Gpu]) -> tuple[bool, int]:
    """Whether some way to place the slots works, and the fewest GPUs that it opens."""
    sizes, of = slots(pod)
    fewest: int | None = None
    for where in product(gpus, repeat=len(sizes)):
        if any(len({where[n] for n in mine}) < len(mine) for mine in of.values()):
            continue
        trial = {uuid: Gpu(gpu.whole, list(gpu.parts)) for uuid, gpu in gpus.items()}
        for uuid, size in zip(where, sizes, strict=True):
            if not trial[uuid].takes(*size, mode_of(pod)):
                break
            trial[uuid].parts.append(("", *size, mode_of(pod)))
        else:
            opened = sum(not gpus[uuid].parts for uuid in set(where))
            fewest = opened if fewest is None else min(fewest, opened)
    return fewest is not None, fewest or 0


def record(pod: PodBuilder, assignment: Assignment, gpus: dict[str, Gpu]) -> None:
    """Count what the pod got."""
    if not any(names.SHARED_RESOURCE in str(one) for one in (*pod.inits, *pod.apps)):
        for uuid in devices_of(assignment) & gpus.keys():
            gpus[uuid].whole += 1
        return
    sizes, of = slots(pod)
    where = {n: uuid for name, mine in of.items() for n, uuid in zip(mine, assignment[name], strict=True)}
    for number, size in enumerate(sizes):
        gpus[where[number]].parts.append((pod.name, *size, mode_of(pod)))


AMOUNT = st.one_of(
    st.builds(lambda memory: {"memory": memory}, st.sampled_from((1, 200, 300, 499, 500, 501, 1000))),
    st.builds(lambda percent: {"percentage": percent}, st.sampled_from((10, 25, 33, 50))),
    st.just({}),
)
CORES = st.sampled_from(({}, {}, {"cores": 30}, {"cores": 60}))


@st.composite
def pods(draw: st.DrawFn) -> list[PodBuilder]:
    found: list[PodBuilder] = []
    for index in range(draw(st.integers(1, 9))):
        pod = a_pod(f"p{index}")
        match draw(st.sampled_from(("share", "share", "share", "share", "whole", "part"))):
            case "whole":
                found.append(pod.asks(draw(st.integers(1, 2))))
                continue
            case "part":
                found.append(pod.asks(1, resource=MIG))
                continue
        for number in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from(("app", "app", "init", "sidecar")))
            gpus = draw(st.sampled_from((1, 1, 1, 2)))
            amounts = draw(AMOUNT) | draw(CORES)
            pod = pod.shares(container=f"c{number}", kind=kind, gpus=gpus, **amounts)
        mode = draw(st.sampled_from((*MODES, "time-slice", "time-slice")))
        found.append(pod.with_annotation(names.SHARING_MODE, mode))
    return found


def devices() -> tuple[Device, ...]:
    part = a100(9, uuid="MIG-a", profile="1g.10gb", parent="GPU-cut", model="1g.10gb")
    return (*(a100(index, share=OFFER) for index in range(3)), a100(9, uuid="GPU-cut", share=OFFER), part)


def compare(view: NodeView, gpus: dict[str, Gpu]) -> None:
    for uuid, gpu in gpus.items():
        use = view.held.get(uuid)
        assert bool(use) == bool(gpu.whole or gpu.parts)
        if use:
            assert (use.whole, use.slots) == (gpu.whole, len(gpu.parts))
            assert use.memory == sum(part[1] for part in gpu.parts)
            assert use.compute == sum(part[2] for part in gpu.parts)
            assert use.shares == len({part[0] for part in gpu.parts})
    assert view.conflicts == ()


class Played:
    """A ledger, the reference, and the pods that were bound."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.ledger.apply_node(a_node("n0", *devices()))
        self.gpus = {f"GPU-n0-{index}": Gpu() for index in range(3)}
        self.bound: dict[str, PodBuilder] = {}

    def bind(self, pod: PodBuilder) -> None:
        """Bind a pod where it fits, and see that it fits just where the reference says so."""
        request, view = gpu_request_of(pod.obj), self.ledger.view("n0")
        reason = rejection(request, view, "alive")
        if request.share:
            possible, fewest = fits(pod, self.gpus)
            assert (reason is None) == possible, reason
            if possible and len(slots(pod)[0]) == 1:
                assert len(choose_shares(request, view).opened) == fewest
        if reason is None:
            assignment = choose(request, view)
            record(pod, assignment, self.gpus)
            self.bound[pod.name] = pod.on("n0", assignment)
            self.ledger.apply_pod(self.bound[pod.name].obj)

    def end(self, name: str) -> None:
        """A pod is gone."""
        self.ledger.forget_pod(self.bound.pop(name).obj.metadata.uid)
        self.gpus = {uuid: Gpu() for uuid in self.gpus}
        for other in self.bound.values():
            record(other, readable_assignment_of(other.obj), self.gpus)


@given(pods(), st.data())
def test_l1_l9_shares_are_given_wherever_there_is_room_and_nowhere_else(
    wanted: list[PodBuilder], data: st.DataObject
) -> None:
    played = Played()
    for pod in wanted:
        played.bind(pod)
        if len(played.bound) > 2 and data.draw(st.booleans()):
            played.end(data.draw(st.sampled_from(sorted(played.bound))))
        compare(played.ledger.view("n0"), played.gpus)
    begun = Ledger()
    for one in data.draw(st.permutations(list(played.bound.values()))):
        begun.apply_pod(one.obj)
    begun.apply_node(a_node("n0", *devices()))
    assert begun.view("n0") == played.ledger.view("n0")


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=12), st.integers(1, 1000))
def test_no_gpu_is_opened_while_a_shared_one_has_room(shares: list[int], more: int) -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *(shared_gpu(index, memory=MEMORY) for index in range(8))))
    for index, memory in enumerate((*shares, more)):
        pod, view = a_pod(f"p{index}").shares(memory=memory), ledger.view("n0")
        rooms = [room.memory for found in view.open_by_model.values() for _, room in found]
        enough = [room for room in rooms if room >= memory]
        try:
            chosen = choose_shares(gpu_request_of(pod.obj), view)
        except NoPlaceError:
            assert not enough
            continue
        assert bool(chosen.opened) == (not enough)
        assert not enough or chosen.left + memory == min(enough)
        ledger.apply_pod(pod.on("n0", chosen.assignment).obj)


@st.composite
def requests(draw: st.DrawFn) -> PodBuilder:
    """A pod with shares, for two models, of any mode."""
    pod = a_pod("asks")
    for number in range(draw(st.integers(1, 2))):
        gpus = draw(st.integers(1, 3))
        pod = pod.shares(container=f"c{number}", gpus=gpus, **draw(AMOUNT), **draw(CORES))
    if draw(st.booleans()):
        pod = pod.wants(*draw(st.sampled_from(((A100,), (A6000,), (A100, A6000)))))
    return pod.with_annotation(names.SHARING_MODE, draw(st.sampled_from((*MODES, "any"))))


@given(st.lists(st.tuples(st.integers(0, 3), AMOUNT, CORES, st.sampled_from(MODES)), max_size=8), requests())
def test_a_share_fits_an_offer_just_where_the_search_finds_its_place(
    held: list[tuple[int, dict[str, int], dict[str, int], str]], asks: PodBuilder
) -> None:
    """Also as if every GPU had slots and modes enough, which is how a reason is found."""
    offers = (OFFER, Sharing(slots=1, memory=MEMORY // 2), OFFER, Sharing(slots=2, memory=MEMORY))
    gpus = (a100(0, share=offers[0]), a100(1, share=offers[1]), a6000(2, share=offers[2]))
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *gpus, a6000(3, share=offers[3])))
    for number, (gpu, amount, cores, mode) in enumerate(held):
        pod = a_pod(f"p{number}").shares(**amount, **cores).with_annotation(names.SHARING_MODE, mode)
        ledger.apply_pod(pod.on("n0", {"main": (f"GPU-n0-{gpu}",)}).obj)
    request, offer = gpu_request_of(asks.obj), ledger.view("n0").offer
    for any_mode, any_slots in product((False, True), repeat=2):
        found = {
            model: tuple(
                (
                    device,
                    replace(
                        room,
                        modes=frozenset(MODES) if any_mode else room.modes,
                        slots=100 if any_slots else room.slots,
                    ),
                )
                for device, room in rooms
                if request.selector.takes(device)
            )
            for model, rooms in offer.rooms.items()
        }
        quick = share_fit.fits(request, offer, any_mode=any_mode, any_slots=any_slots)
        assert quick == (place(request, found) is not None)
