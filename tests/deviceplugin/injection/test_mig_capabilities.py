"""The device nodes of a MIG device, as the driver says them."""

from pathlib import Path

from devcluster.fakenvml import capabilities, default_gpus, mig
from deviceplugin.injection.mig_capabilities import capability_nodes


def test_both_instances_have_a_node(tmp_path: Path) -> None:
    first, second = mig(default_gpus(0)[0], ["3g.40gb", "1g.10gb"])
    capabilities.lay_out(tmp_path, 2, (first, second))
    own = capability_nodes(tmp_path / capabilities.PROC, 2, second.gi, second.ci)
    numbers = (capabilities.number(2, second.gi), capabilities.number(2, second.gi, second.ci))
    assert own == tuple(f"nvidia-caps/nvidia-cap{number}" for number in numbers)
    assert own != capability_nodes(tmp_path / capabilities.PROC, 2, first.gi, first.ci)


def test_what_the_driver_does_not_say_is_unknown(tmp_path: Path) -> None:
    assert capability_nodes(tmp_path, 0, 1, 0) is None
    capabilities.lay_out(tmp_path, 0, mig(default_gpus(0)[0], ["3g.40gb"]))
    assert capability_nodes(tmp_path / capabilities.PROC, 0, 1, 7) is None
    access = tmp_path / capabilities.PROC / "gpu0/mig/gi1/access"
    for odd in ("", "DeviceFileMinor: many\n", "DeviceFileMode: 292\n"):
        access.write_text(odd)
        assert capability_nodes(tmp_path / capabilities.PROC, 0, 1, 0) is None
