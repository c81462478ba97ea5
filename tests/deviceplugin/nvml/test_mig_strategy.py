"""Whether the GPUs of a node are partitioned alike, as strategy ``single`` needs it."""

from deviceplugin.nvml.mig_strategy import unequal
from tests.deviceplugin.nvml.cut import gpu, part

LARGE = "3g.40gb"


def test_gpus_that_are_partitioned_alike_or_not_at_all_are_equal() -> None:
    assert unequal([gpu(0), gpu(1)]) is None
    assert unequal([gpu(0, cut=True), part(0, 1), gpu(1, cut=True), part(1, 1)]) is None


def test_a_gpu_in_mig_mode_without_a_mig_device_does_not_affect_the_others() -> None:
    assert unequal([gpu(0, cut=True), part(0, 1), gpu(1, cut=True)]) is None
    assert unequal([gpu(0, cut=True), gpu(1)]) is None


def test_mig_devices_of_several_profiles_are_unequal_and_their_profiles_are_named() -> None:
    devices = [gpu(0, cut=True), part(0, 1, LARGE), part(0, 2)]
    assert (unequal(devices) or "").endswith("several profiles: 1g.10gb, 3g.40gb")


def test_a_whole_gpu_beside_one_in_mig_mode_is_unequal() -> None:
    assert "others not" in (unequal([gpu(0, cut=True), part(0, 1), gpu(1)]) or "")


def test_a_mig_device_that_is_gone_does_not_count() -> None:
    assert unequal([gpu(0, cut=True), part(0, 1), part(0, 2, LARGE, gone=True)]) is None
    assert unequal([gpu(0), part(0, 1, gone=True)]) is None
