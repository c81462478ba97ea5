"""What a slot adds to its container, by the mode of the pod."""

from pathlib import Path

import msgspec

from cluster import mps_names, names
from cluster.objects.inventory import Device, Sharing
from cluster.objects.pods import Pod
from deviceplugin.injection.share_edits import Hook, ShareMount, share_edits
from tests.deviceplugin.pods import pod, share

GPU = Device(uuid="GPU-0", index=0, model="NVIDIA-A100", memory=81920, share=Sharing(slots=16, memory=80000))
PIPE = Path("/run/mps/GPU-0/pipe")
HOOK = Hook(
    mounts={"/usr/local/vgpu/libvgpu.so": "/opt/vgpu/libvgpu.so"},
    environment={"CUDA_DEVICE_MEMORY_LIMIT": "{memory}m", "CUDA_DEVICE_SM_LIMIT": "{cores}", "MORE": "1"},
)
LIMITED: dict[str, str | int] = {names.GPU_MEMORY: 8192, names.GPU_CORES: 30}
ACCOUNTED = {
    names.DEVICES_VARIABLE: "GPU-0",
    names.GPU_MEMORY_VARIABLE: "8192",
    names.GPU_CORES_VARIABLE: "30",
}


def sharing(mode: str, **limits: str | int) -> Pod:
    bare = pod("a", app=(share("main", **limits),))
    meta = msgspec.structs.replace(bare.metadata, annotations={names.SHARING_MODE: mode})
    return msgspec.structs.replace(bare, metadata=meta)


def test_under_mps_the_driver_gets_the_limits_and_the_daemon_and_no_library_is_added() -> None:
    edits = share_edits(sharing("mps", **LIMITED), ("main",), (GPU,), pipe=PIPE, hook=HOOK)
    assert edits.environment == ACCOUNTED | {
        mps_names.PIPE_VARIABLE: str(PIPE),
        mps_names.MEMORY_VARIABLE: "0=8192M",
        mps_names.THREADS_VARIABLE: "30",
    }
    assert edits.mounts == (ShareMount(str(PIPE), str(PIPE), is_writable=True),)


def test_in_time_slices_a_library_of_the_administrator_s_gets_the_amounts_that_were_named() -> None:
    edits = share_edits(sharing("time-slice", **LIMITED), ("main",), (GPU,), pipe=PIPE, hook=HOOK)
    of_hook = {"CUDA_DEVICE_MEMORY_LIMIT": "8192m", "CUDA_DEVICE_SM_LIMIT": "30", "MORE": "1"}
    assert edits.environment == ACCOUNTED | of_hook
    assert edits.mounts == (ShareMount("/opt/vgpu/libvgpu.so", "/usr/local/vgpu/libvgpu.so"),)
    unnamed = share_edits(sharing("time-slice"), ("main",), (GPU,), hook=HOOK)
    assert unnamed.environment == {names.DEVICES_VARIABLE: "GPU-0", "MORE": "1"}
    assert share_edits(sharing("time-slice", **LIMITED), ("main",), (GPU,)).environment == ACCOUNTED
