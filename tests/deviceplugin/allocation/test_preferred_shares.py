"""Law L1 with shares: random pods with whole GPUs and with shares, against what each id excludes."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.objects.slots import is_slot, physical, slots_of
from deviceplugin.allocation.pod_devices import PodDevices, excluded
from deviceplugin.allocation.preferred import AllocationRequest, NodeState, Verdict, choose
from tests.deviceplugin.pods import GPU, SHARED, container, pod, share

GPUS = ("GPU-0", "GPU-1", "GPU-2")
SLOTS = tuple(slot for gpu in GPUS for slot in slots_of(gpu, 3))
forms = st.lists(st.sampled_from([None, *GPUS, *SLOTS]), max_size=8)


def held_by(ids: list[str | None]) -> PodDevices:
    """Pods ``h0``, ``h1``...: each has one id, and none that an earlier one excludes."""
    entries: dict[str, dict[tuple[str, str], frozenset[str]]] = {GPU: {}, SHARED: {}}
    taken: set[str] = set()
    for number, one in enumerate(ids):
        if one is not None and not excluded({one}, taken):
            taken.add(one)
            entries[SHARED if is_slot(one) else GPU][f"h{number}", "main"] = frozenset({one})
    return PodDevices(entries[GPU], {SHARED: entries[SHARED]})


def seen_by(resource: str, held: PodDevices) -> PodDevices:
    both = {GPU: held.entries, SHARED: held.others[SHARED]}
    return PodDevices(both.pop(resource), both)


@given(
    ids=forms,
    shares=st.booleans(),
    size=st.integers(1, 3),
    assigned=st.lists(st.sampled_from(GPUS), unique=True, max_size=3),
)
def test_l1_no_choice_is_excluded_by_what_living_pods_have(
    *, ids: list[str | None], shares: bool, size: int, assigned: list[str]
) -> None:
    held = held_by(ids)
    resource, everything = (SHARED, SLOTS) if shares else (GPU, GPUS)
    mine = share("main", size) if shares else container("main", size)
    living = [pod(uid, 0, phase="Running") for uid in held.uids]
    new = pod("new", assignment=assigned[:size], app=(mine,))
    state = NodeState(resource, seen_by(resource, held), (*living, new))
    decision = choose(AllocationRequest(frozenset(everything), frozenset(), size), state)
    free = frozenset(everything) - excluded(frozenset(everything), held.devices)
    if len(free) < size:
        assert (decision.verdict, decision.devices) == (Verdict.REFUSED, ())
        return
    assert len(set(decision.devices)) == size
    assert set(decision.devices) <= free
    got = {physical(device) for device in decision.devices}
    assert len(got) == min(size, len({physical(device) for device in free}))
    assert {uuid for uuid in assigned[:size] if uuid in map(physical, free)} <= got
