"""Where GPUs that another plugin gives out can be opened for shares, and what they offer then."""

from pathlib import Path

import pytest

from cluster import names
from cluster.objects.inventory import Sharing
from cluster.objects.slots import slot_id
from deviceplugin.beside.numbering import numbered
from deviceplugin.beside.opening import NO_EFFECT, OTHER_SLOTS, Opening
from tests.deviceplugin.beside.test_numbering import A6000, GPU, gpu, part, seen

MIG = f"{names.MIG_RESOURCE_PREFIX}1g.10gb"


@pytest.mark.parametrize(
    ("nodes", "amounts", "problem"),
    [
        (("nvidia0", "nvidiactl"), {GPU: 4}, None),
        (("nvidiactl", "null"), {GPU: 4}, NO_EFFECT),
        (("nvidia0",), {GPU: 4, names.SHARED_RESOURCE: 0}, OTHER_SLOTS),
    ],
)
def test_the_agent_s_own_container_shows_whether_the_variable_counts(
    tmp_path: Path, nodes: tuple[str, ...], amounts: dict[str, int], problem: str | None
) -> None:
    for name in nodes:
        (tmp_path / name).touch()
    assert Opening(slots=16, reserve=512, own_dev=tmp_path).problem(amounts) == problem


def test_whole_gpus_of_one_model_offer_shares() -> None:
    offered = Sharing(slots=16, memory=81_920 - 512)
    found = numbered(seen(map(gpu, range(2)), {GPU: 2}, slots=16, reserve=512))
    assert [one.share for one in found] == [offered, offered]
    assert not any(one.share for one in numbered(seen(map(gpu, range(2)), {GPU: 2})))


def test_turns_parts_and_gpus_of_several_models_offer_none() -> None:
    replicas = {GPU: frozenset(slot_id("GPU-0", n) for n in range(4))}
    cases = [
        seen([gpu(0)], {GPU: 4}, registered=replicas, slots=16),
        seen([gpu(0, partitioned=True), part(0, 0)], {MIG: 1}, registered={MIG: {"MIG-00"}}, slots=16),
        seen([gpu(0), gpu(1, model=A6000)], {GPU: 2}, slots=16),
    ]
    assert not any(one.share for case in cases for one in numbered(case))
