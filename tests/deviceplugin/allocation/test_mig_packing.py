"""From which GPU the next MIG device is taken."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from cluster.objects.inventory import Device
from deviceplugin.allocation.mig_packing import Packing, by_parts, packed
from deviceplugin.allocator import first_devices

ALL = {f"{gpu}{n}": gpu for gpu in "ABC" for n in range(7)}


def chosen(free: str, count: int, packing: Packing, already: str = "") -> list[str]:
    return packed(ALL, free.split(), chosen=already.split(), count=count, packing=packing)


def test_distributed_takes_from_the_gpu_with_the_fewest_devices_in_use() -> None:
    free = "A5 A6 B3 B4 B5 B6 C6"
    assert chosen(free, 1, Packing.DISTRIBUTED) == ["B3"]
    assert chosen(free, 4, Packing.DISTRIBUTED) == ["B3", "B4", "A5", "B5"]


@given(st.sets(st.sampled_from(sorted(ALL))), st.integers(0, 21), st.sampled_from(Packing))
def test_as_many_devices_as_available_are_chosen_each_once(
    free: set[str], count: int, packing: Packing
) -> None:
    got = packed(ALL, sorted(free), chosen=(), count=count, packing=packing)
    assert len(got) == len(set(got)) == min(count, len(free))
    assert set(got) <= free


@given(st.sets(st.sampled_from(sorted(ALL)), min_size=1), st.integers(1, 21))
def test_distributed_never_skips_a_gpu_with_more_free_devices(free: set[str], count: int) -> None:
    got = packed(ALL, sorted(free), chosen=(), count=count, packing=Packing.DISTRIBUTED)
    taken = Counter(gpu for device, gpu in ALL.items() if device not in free or device in got)
    for device in got:
        others = [taken[ALL[one]] for one in free if one not in got]
        assert all(taken[ALL[device]] <= other + 1 for other in others)


def test_whole_gpus_are_chosen_by_links_and_profiles_are_counted_separately() -> None:
    known = {
        "GPU-0": Device(uuid="GPU-0", index=0, model="M"),
        "GPU-1": Device(uuid="GPU-1", index=1, model="M"),
    }
    for gpu, n, profile in [("X", 0, "1g"), ("X", 1, "1g"), ("Y", 0, "1g"), ("Y", 1, "3g"), ("Y", 2, "3g")]:
        uuid = f"MIG-{gpu}{n}"
        known[uuid] = Device(uuid=uuid, index=2, model="M", parent=gpu, profile=profile)
    pick = by_parts(Packing.DISTRIBUTED, first_devices)
    assert pick(known, ["GPU-1", "GPU-0"], frozenset(), 1) == ["GPU-1"]
    assert pick(known, ["MIG-X1", "MIG-Y0"], frozenset(), 1) == ["MIG-Y0"], "of X one is taken, of Y none"
