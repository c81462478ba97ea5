"""GPUs that are cut, for tests of what is advertised."""

from cluster.objects.inventory import Device, mig_model
from deviceplugin.nvml.inventory import NodeDevice

MODEL = "NVIDIA-A100-SXM4-80GB"


def gpu(index: int, *, cut: bool = False) -> NodeDevice:
    """A GPU, whole or in MIG mode."""
    published = Device(uuid=f"GPU-{index}", index=index, model=MODEL, memory=81920)
    return NodeDevice(published=published, minor=index, pci=f"0000:0{index}:00.0", partitioned=cut)


def part(
    index: int, instance: int, profile: str = "1g.10gb", *, name: str = "", gone: bool = False
) -> NodeDevice:
    """A MIG device of the GPU with this index."""
    whole = gpu(index)
    uuid = f"MIG-{index}-{instance}{name}"
    published = Device(
        uuid=uuid,
        index=index,
        model=mig_model(MODEL, profile),
        memory=9728,
        parent=whole.uuid,
        profile=profile,
    )
    made = NodeDevice(
        published=published,
        minor=index,
        pci=whole.pci,
        gpu_instance=instance,
        compute_instance=0,
        gone=gone,
    )
    return made.as_unhealthy("This MIG device does not exist any more") if gone else made


def reasons(devices: tuple[Device, ...]) -> dict[str, str | None]:
    """UUID -> why it is unhealthy."""
    return {device.uuid: device.reason for device in devices}
