"""What a container with shares finds in its environment."""

from cluster import dialect_names, names
from cluster.objects.inventory import Device, Sharing
from deviceplugin.injection.share_environment import share_environment
from tests.deviceplugin.pods import pod, share


def gpu(index: int, memory: int) -> Device:
    offered = Sharing(slots=16, memory=memory - 1024)
    return Device(uuid=f"GPU-{index}", index=index, model="NVIDIA-A100", memory=memory, share=offered)


def test_a_percentage_is_of_what_each_gpu_offers() -> None:
    limits: dict[str, str | int] = {names.GPU_MEMORY_PERCENTAGE: 25, names.GPU_CORES: 30}
    shape = pod("a", app=(share("main", 2, **limits),))
    assert share_environment(shape, ("main",), (gpu(1, 41984), gpu(0, 82944))) == {
        names.DEVICES_VARIABLE: "GPU-0,GPU-1",
        names.GPU_MEMORY_VARIABLE: "20480,10240",
        names.GPU_CORES_VARIABLE: "30",
    }


def test_containers_of_gpushare_s_users_find_its_variables_in_their_unit_as_the_annotations_have_it() -> None:
    limits: dict[str, str | int] = {names.ALIYUN_MEMORY: 8, names.GPU_MEMORY: 8192}
    side: dict[str, str | int] = {names.ALIYUN_MEMORY: 2, names.GPU_MEMORY: 2048}
    large: dict[str, str | int] = {names.GPU_MEMORY: 65536}
    shape = pod("a", app=(share("main", **limits), share("side", **side)), init=(share("first", **large),))
    found = share_environment(shape, ("first", "main"), (gpu(3, 82944),))
    assert {
        key: found[f"{dialect_names.ALIYUN_VARIABLE}{key}"] for key in ("IDX", "POD", "CONTAINER", "DEV")
    } == {
        "IDX": "3",
        "POD": "10",
        "CONTAINER": "8",
        "DEV": "80",
    }


def test_a_container_that_says_no_amount_finds_no_limit() -> None:
    found = share_environment(pod("a", app=(share("main"),)), ("main",), (gpu(0, 81920),))
    assert found == {names.DEVICES_VARIABLE: "GPU-0"}
