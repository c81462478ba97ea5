"""Profile names from what NVML says, against the profiles of real cards."""

import pytest

from deviceplugin.nvml.mig_profile import profile_name

H200, A100 = 150754820096, 81920 << 20


@pytest.mark.parametrize(
    ("slices", "memory_mib", "total", "name"),
    [
        (1, 16384, H200, "1g.18gb"),
        (1, 33280, H200, "1g.35gb"),
        (2, 33280, H200, "2g.35gb"),
        (3, 71424, H200, "3g.71gb"),
        (4, 71424, H200, "4g.71gb"),
        (7, 143360, H200, "7g.141gb"),
        (1, 9728, A100, "1g.10gb"),
        (3, 40192, A100, "3g.40gb"),
        (7, 80640, A100, "7g.80gb"),
    ],
)
def test_a_profile_is_named_as_nvidia_names_it(slices: int, memory_mib: int, total: int, name: str) -> None:
    named = profile_name(gpu_slices=slices, compute_slices=slices, memory_mib=memory_mib, total_bytes=total)
    assert named == name


def test_the_profile_of_a_compute_instance_names_its_part_of_the_gpu_instance() -> None:
    assert profile_name(gpu_slices=3, compute_slices=1, memory_mib=40192, total_bytes=A100) == "1c.3g.40gb"
