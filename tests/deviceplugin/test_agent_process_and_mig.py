"""The whole agent as a process over the real pynvml: GPUs are cut and made whole again while it runs."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from cluster import names
from cluster.fake.clock import eventually
from devcluster.fakenvml import FakeNvml, MigSpec, capabilities, default_gpus, mig
from tests.deviceplugin.kubelet.test_registrations_with_a_kubelet import asking
from tests.deviceplugin.test_agent_process import HURRIED, agent, simulated
from tests.fakes.kubelet import GPU, FakeKubelet

SMALL, LARGE, MEDIA = (f"{names.MIG_RESOURCE_PREFIX}{name}" for name in ("1g.10gb", "3g.40gb", "1g.10gb.me"))
PATIENCE = 60.0
STRATEGY = names.setting("mig_strategy")


def cut(gpus: FakeNvml, gpu: int, *profiles: str) -> tuple[MigSpec, ...]:
    """Cut a GPU; the agent's folder of device nodes has those that give access."""
    parts = mig(default_gpus(0)[gpu], profiles)
    access = gpus.folder.parent / "dev" / capabilities.FOLDER
    access.mkdir(parents=True, exist_ok=True)
    for part in parts:
        for ci in (None, part.ci):
            (access / f"nvidia-cap{capabilities.number(gpu, part.gi, ci)}").touch()
    gpus.mig(gpu, parts)
    return parts


def lists(kubelet: FakeKubelet) -> dict[str, set[str]]:
    """Resource -> devices; without the slots of GPUs that can be shared."""
    found = kubelet.lists.items()
    return {resource: set(some) for resource, some in found if some and resource != names.SHARED_RESOURCE}


def uuids(parts: Sequence[MigSpec]) -> set[str]:
    return {part.uuid for part in parts}


def test_gpus_are_cut_and_made_whole_again_while_pods_run(kubelet: FakeKubelet, tmp_path: Path) -> None:
    gpus = simulated(tmp_path)
    first, second, third, fourth = gpus.uuids()
    parts = cut(gpus, 0, "1g.10gb", "1g.10gb+me", "3g.40gb")
    with agent(kubelet, gpus, tmp_path, HURRIED, **{STRATEGY: "mixed"}):
        alone = {GPU: {second, third, fourth}}
        eventually(
            lambda: (
                lists(kubelet)
                == alone | {SMALL: {parts[0].uuid}, MEDIA: {parts[1].uuid}, LARGE: {parts[2].uuid}}
            ),
            deadline=PATIENCE,
        )
        whole, part = asking(GPU, main=[third]), asking(SMALL)
        assert kubelet.admit(whole), whole.message
        assert kubelet.admit(part), part.message
        assert kubelet.devices_of(part.uid) == {parts[0].uuid}
        spec = json.loads((tmp_path / "cdi" / f"{names.DOMAIN}-gpu.json").read_text())
        own = next(one for one in spec["devices"] if one["name"] == parts[0].uuid)
        number = capabilities.number(0, parts[0].gi)
        paths = [node["path"] for node in own["containerEdits"]["deviceNodes"]]
        assert f"/dev/{capabilities.FOLDER}/nvidia-cap{number}" in paths

        gpus.mig(0, ())
        eventually(
            lambda: lists(kubelet) == alone | {GPU: {*alone[GPU], first}, SMALL: {parts[0].uuid}},
            deadline=PATIENCE,
        )
        assert kubelet.devices[first].health == "Unhealthy", "a pod has a part of it still"
        eventually(lambda: kubelet.devices[parts[0].uuid].health == "Unhealthy", deadline=PATIENCE)
        kubelet.prestart(whole.uid, "main")

        kubelet.end(part.uid)
        eventually(lambda: lists(kubelet) == {GPU: {first, second, third, fourth}}, deadline=PATIENCE)
        eventually(lambda: kubelet.devices[first].health == "Healthy", deadline=PATIENCE)
        assert kubelet.refusals == []


def test_a_fault_of_one_mig_device_does_not_concern_the_others(kubelet: FakeKubelet, tmp_path: Path) -> None:
    gpus = simulated(tmp_path)
    parts = cut(gpus, 0, "1g.10gb", "1g.10gb", "1g.10gb")
    with agent(kubelet, gpus, tmp_path, **{STRATEGY: "mixed"}):
        eventually(lambda: lists(kubelet).get(SMALL) == uuids(parts), deadline=PATIENCE)
        gpus.xid(0, 48, gi=parts[1].gi)
        eventually(lambda: kubelet.devices[parts[1].uuid].health == "Unhealthy", deadline=PATIENCE)
        assert kubelet.allocatable == kubelet.capacity - 1
        gpus.xid(0, 48)
        eventually(lambda: kubelet.allocatable == kubelet.capacity - 3, deadline=PATIENCE)


def test_in_strategy_single_mig_devices_are_gpus_as_long_as_all_are_cut_alike(
    kubelet: FakeKubelet, tmp_path: Path
) -> None:
    gpus = simulated(tmp_path)
    for uuid in gpus.uuids()[2:]:
        gpus.remove_gpu(uuid)
    parts = (*cut(gpus, 0, "3g.40gb", "3g.40gb"), *cut(gpus, 1, "3g.40gb", "3g.40gb"))
    with agent(kubelet, gpus, tmp_path, **{STRATEGY: "single"}) as running:
        eventually(lambda: lists(kubelet) == {GPU: uuids(parts)}, deadline=PATIENCE)
        pod = asking(GPU, main=[parts[0].uuid])
        assert kubelet.admit(pod), pod.message
        gpus.mig(1, ())
        # The one that a pod has is well, the other one and the whole GPU are not.
        eventually(lambda: (kubelet.capacity, kubelet.allocatable) == (3, 1), deadline=PATIENCE)
        # The kubelet is notified before the line is written, by a thread of its own.
        why = "some GPUs of the node are in MIG mode"
        eventually(lambda: why in running.log.read_text(), deadline=PATIENCE)


@pytest.mark.parametrize("strategy", ["both", "MIXED"])
def test_an_unknown_strategy_ends_the_agent(kubelet: FakeKubelet, tmp_path: Path, strategy: str) -> None:
    with agent(kubelet, simulated(tmp_path), tmp_path, **{STRATEGY: strategy}) as running:
        assert running.process.wait(timeout=PATIENCE) == 2
        assert STRATEGY in running.log.read_text()
