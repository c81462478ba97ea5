"""Names and values of the Node's labels."""

import pytest

from cluster import names
from deviceplugin.node.feature_labels import LONGEST, family, label_value, labels
from deviceplugin.nvml.interface import Versions
from deviceplugin.nvml.mig_strategy import MigStrategy
from tests.deviceplugin.node.cards import A100, A6000, card, cut, devices, label_inputs
from tests.fakes.nvml import MemoryGpu


def nvidias(found: dict[str, str]) -> dict[str, str]:
    """Those of NVIDIA, without the prefix."""
    prefix = names.NVIDIA_PREFIX
    return {key.removeprefix(prefix): value for key, value in found.items() if key.startswith(prefix)}


def models(found: dict[str, str]) -> dict[str, str]:
    """Those of models; that the one which says that they are all counts their devices is checked."""
    prefix = names.MODEL_LABEL
    every = {key.removeprefix(prefix): value for key, value in found.items() if key.startswith(prefix)}
    total = every.pop(names.MODELS_LABELLED.removeprefix(prefix))
    assert int(total) == sum(map(int, every.values()))
    return every


def test_a_node_of_one_model_is_labelled_as_by_gpu_feature_discovery() -> None:
    assert nvidias(labels(label_inputs(card(0), card(1)))) == {
        "cuda.driver-version.full": "580.159.04",
        "cuda.driver-version.major": "580",
        "cuda.driver-version.minor": "159",
        "cuda.driver-version.revision": "04",
        "cuda.driver.major": "580",
        "cuda.driver.minor": "159",
        "cuda.driver.rev": "04",
        "cuda.runtime-version.full": "13.0",
        "cuda.runtime-version.major": "13",
        "cuda.runtime-version.minor": "0",
        "cuda.runtime.major": "13",
        "cuda.runtime.minor": "0",
        "gpu.compute.major": "8",
        "gpu.compute.minor": "0",
        "gpu.count": "2",
        "gpu.family": "ampere",
        "gpu.machine": "DGX-A100",
        "gpu.memory": "81920",
        "gpu.mode": "compute",
        "gpu.product": "NVIDIA-A100-SXM4-80GB",
        "gpu.replicas": "1",
        "gpu.sharing-strategy": "none",
        "mig.capable": "true",
        "mps.capable": "false",
    }


def test_the_labels_of_gpu_feature_discovery_describe_the_most_frequent_of_several_models() -> None:
    found = labels(label_inputs(card(0, A6000, memory_mib=49140), card(1), card(2)))
    features = nvidias(found)
    assert (features["gpu.product"], features["gpu.count"], features["gpu.memory"]) == (
        "NVIDIA-A100-SXM4-80GB",
        "2",
        "81920",
    )
    assert models(found) == {"NVIDIA-A100-SXM4-80GB": "2", "NVIDIA-RTX-A6000": "1"}


def test_mig_devices_are_not_labelled_where_they_are_not_advertised() -> None:
    found = labels(label_inputs(cut(card(0), "1g.10gb", "1g.10gb")))
    assert nvidias(found)["gpu.replicas"] == "0"
    assert not [key for key in nvidias(found) if key.startswith("mig-") or key == "mig.strategy"]
    assert models(found) == {}


def test_the_mixed_strategy_labels_each_profile_next_to_whole_gpus() -> None:
    found = labels(
        label_inputs(
            cut(card(0), "1g.10gb", "1g.10gb", "1g.10gb+me"),
            card(1),
            strategy=MigStrategy.MIXED,
        )
    )
    features = nvidias(found)
    assert features["mig.strategy"] == "mixed"
    assert (features["gpu.product"], features["gpu.count"], features["gpu.replicas"]) == (
        "NVIDIA-A100-SXM4-80GB",
        "2",
        "1",
    )
    of_mig = {key: value for key, value in features.items() if key.startswith("mig-1g.10gb.")}
    assert {
        key.removeprefix("mig-1g.10gb."): value for key, value in of_mig.items() if ".me." not in key
    } == {
        "count": "2",
        "engines.copy": "1",
        "engines.decoder": "0",
        "engines.encoder": "0",
        "engines.jpeg": "0",
        "engines.ofa": "0",
        "memory": "9728",
        "multiprocessors": "14",
        "product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
        "replicas": "1",
        "sharing-strategy": "none",
        "slices.ci": "1",
        "slices.gi": "1",
    }
    assert features["mig-1g.10gb.me.product"] == "NVIDIA-A100-SXM4-80GB-MIG-1g.10gbme"
    assert models(found) == {
        "NVIDIA-A100-SXM4-80GB": "1",
        "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb": "2",
        "NVIDIA-A100-SXM4-80GB-MIG-1g.10gbme": "1",
    }


def test_the_single_strategy_labels_the_gpu_as_its_mig_devices() -> None:
    found = labels(
        label_inputs(
            cut(card(0), *["1g.10gb"] * 7), cut(card(1), *["1g.10gb"] * 7), strategy=MigStrategy.SINGLE
        )
    )
    features = nvidias(found)
    assert (
        features["gpu.product"],
        features["gpu.count"],
        features["gpu.memory"],
        features["gpu.slices.gi"],
    ) == (
        "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
        "14",
        "9728",
        "1",
    )
    assert (features["mig.strategy"], features["gpu.family"]) == ("single", "ampere")
    assert models(found) == {"NVIDIA-A100-SXM4-80GB-MIG-1g.10gb": "14"}


@pytest.mark.parametrize(
    "gpus",
    [
        [cut(card(0), "1g.10gb", "3g.40gb")],
        [cut(card(0), "1g.10gb"), card(1)],
        [cut(card(0))],
    ],
    ids=["several profiles", "some whole", "none"],
)
def test_the_single_strategy_labels_a_node_on_which_it_gives_nothing_as_invalid(
    gpus: list[MemoryGpu],
) -> None:
    features = nvidias(labels(label_inputs(*gpus, strategy=MigStrategy.SINGLE)))
    assert (
        features["gpu.product"],
        features["gpu.count"],
        features["gpu.replicas"],
        features["gpu.memory"],
    ) == (
        "NVIDIA-A100-SXM4-80GB-MIG-INVALID",
        "0",
        "0",
        "0",
    )


def test_the_single_strategy_labels_whole_gpus_like_the_strategy_none() -> None:
    single, none = (
        labels(label_inputs(card(0), strategy=one)) for one in (MigStrategy.SINGLE, MigStrategy.NONE)
    )
    assert single == none | {f"{names.NVIDIA_PREFIX}mig.strategy": "single"}


def test_mig_devices_that_are_gone_are_not_labelled() -> None:
    before = devices(cut(card(0), "1g.10gb", "3g.40gb"))
    after = devices(cut(card(0), "1g.10gb"), known=before)
    assert len(after) == 3
    features = nvidias(labels(label_inputs(devices=after, strategy=MigStrategy.MIXED)))
    assert {key.split(".count")[0] for key in features if key.endswith(".count")} == {"gpu", "mig-1g.10gb"}


def test_unknown_facts_are_not_labelled() -> None:
    bare = card(0, memory_mib=None, compute=None, can_mig=False)
    features = nvidias(labels(label_inputs(bare, versions=Versions("580", None), machine="", pci_class=None)))
    assert features == {
        "cuda.driver-version.full": "580",
        "gpu.count": "1",
        "gpu.machine": "unknown",
        "gpu.mode": "unknown",
        "gpu.product": "NVIDIA-A100-SXM4-80GB",
        "gpu.replicas": "1",
        "gpu.sharing-strategy": "none",
        "mig.capable": "false",
        "mps.capable": "false",
    }


@pytest.mark.parametrize(
    ("compute", "name"),
    [
        ((3, 5), "kepler"),
        ((7, 0), "volta"),
        ((7, 5), "turing"),
        ((8, 6), "ampere"),
        ((8, 9), "ada-lovelace"),
        ((9, 0), "hopper"),
        ((10, 0), "blackwell"),
        ((12, 1), "blackwell"),
        ((4, 0), "undefined"),
    ],
)
def test_families_are_recognised_by_compute_capability(compute: tuple[int, int], name: str) -> None:
    assert family(compute) == name


@pytest.mark.parametrize("name", ["NVIDIA  RTX (Ada)/24 GB", "x" * 99, "--a b--", "NVIDIA-" + "-" * 70])
def test_kubernetes_accepts_every_value(name: str) -> None:
    value = label_value(name)
    assert 0 < len(value) <= LONGEST
    assert value[0].isalnum()
    assert value[-1].isalnum()
    assert all(letter.isalnum() or letter in "-_." for letter in value)


@pytest.mark.parametrize(
    "name", [A100, A6000, "NVIDIA H200", "NVIDIA RTX A6000 [Ada]", "Quadro RTX 6000/8000"]
)
def test_a_pod_may_ask_for_a_model_by_the_label_or_by_our_annotation_in_one_spelling(name: str) -> None:
    found = labels(label_inputs(card(0, name)))
    model = devices(card(0, name))[0].published.model
    assert nvidias(found)["gpu.product"] == model == names.model_label(name)
    assert models(found) == {model: "1"}
