"""Which devices the host's CDI specifications describe: tables, and an oracle over random machines."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.injection.host_cdi import KIND, NOTHING, Fit, Specification, fit

DRIVER = "580.159.04"
GPU_0 = {"GPU-a": frozenset({"/dev/nvidia0"})}
GPUS = {**GPU_0, "GPU-b": frozenset({"/dev/nvidia1"})}
OTHER_LIBRARY = "/usr/lib/libnvidia-egl-wayland.so.1.1.19"


def specification(
    *devices: tuple[str, Sequence[str] | None], mounts: Sequence[str] = (), kind: str = KIND
) -> Specification:
    """A specification as it is read from a file. Args: devices: name and nodes, None: without edits."""
    described: list[dict[str, Any]] = [
        {"name": name} if nodes is None else {"name": name, "containerEdits": {"deviceNodes": _paths(nodes)}}
        for name, nodes in devices
    ]
    text = {
        "kind": kind,
        "devices": described,
        "containerEdits": {"mounts": [{"hostPath": path, "containerPath": path} for path in mounts]},
    }
    return msgspec.convert(text, Specification)


def _paths(nodes: Sequence[str]) -> list[dict[str, str]]:
    return [{"path": node} for node in nodes]


def qualified(**names: str) -> dict[str, str]:
    return {f"GPU-{gpu}": f"nvidia.com/gpu={name}" for gpu, name in names.items()}


@pytest.mark.parametrize(
    ("found", "own"),
    [
        ([], GPU_0),
        ([specification(("0", ["/dev/nvidia0"]), kind="vendor.com/nic")], GPU_0),
        ([specification(("0", ["/dev/nvidia0"]), kind="")], GPU_0),
        ([specification(("0", ["/dev/nvidia0"]))], {}),
    ],
    ids=["no specification", "another kind", "no kind", "no devices of ours"],
)
def test_nothing_is_used_or_reported_where_no_specification_concerns_our_devices(
    found: list[Specification], own: Mapping[str, frozenset[str]]
) -> None:
    assert fit(found, own, DRIVER) == NOTHING


@pytest.mark.parametrize(
    ("nodes", "is_fit"),
    [
        (["/dev/nvidia0"], True),
        (["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dri/card1"], True),
        (["/dev/nvidia0", "/dev/nvidia0"], True),
        (["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap1"], False),
        (["/dev/nvidia0", "/dev/nvidia10"], False),
        (["/dev/nvidia10"], False),
        (["/sim/dev/nvidia0"], False),
        (["/dev/nvidia0p1"], False),
        ([], False),
        (None, False),
    ],
    ids=[
        "its node alone",
        "with nodes that all share",
        "its node twice",
        "with a capability of a part",
        "with another GPU's",
        "a longer number",
        "below another folder",
        "a longer name",
        "no nodes",
        "no edits",
    ],
)
def test_a_device_is_recognised_by_the_device_nodes_that_only_it_has(
    nodes: list[str] | None, *, is_fit: bool
) -> None:
    problem = "It has no device with the nodes of GPU-a and no others"
    expected = Fit(qualified(a="0")) if is_fit else Fit(problem=problem)
    assert fit([specification(("0", nodes))], GPU_0, DRIVER) == expected


@pytest.mark.parametrize(
    ("called", "name"),
    [
        (["0", "GPU-a"], "GPU-a"),
        (["GPU-a", "0"], "GPU-a"),
        (["gpu0", "0"], "0"),
        (["1", "0"], "0"),
        (["10", "9"], "9"),
        (["GPU-b", "GPU-c"], "GPU-b"),
    ],
    ids=[
        "its uuid after its number",
        "its uuid before its number",
        "the shorter",
        "the first of equal length",
        "shorter before first",
        "not another's uuid before its own",
    ],
)
def test_the_uuid_or_the_shortest_of_several_names_is_used(called: list[str], name: str) -> None:
    devices = [(one, ["/dev/nvidia0"]) for one in called]
    assert fit([specification(*devices)], GPU_0, DRIVER).qualified == qualified(a=name)


@pytest.mark.parametrize(
    ("mounts", "driver", "problem"),
    [
        ([], DRIVER, None),
        ([f"/usr/lib/libcuda.so.{DRIVER}", f"/usr/lib/libnvidia-ml.so.{DRIVER}"], DRIVER, None),
        (["/usr/lib/libcuda.so.1", "/usr/lib/libnvidia-ml.so.1"], DRIVER, None),
        ([OTHER_LIBRARY, "/usr/lib/libnvidia-ptxjitcompiler.so.570.1"], DRIVER, None),
        (["/usr/lib/mylibcuda.so.570.1"], DRIVER, None),
        (["/usr/lib/libcuda.so.570.1.txt"], DRIVER, None),
        ([""], DRIVER, None),
        (["/usr/lib/libcuda.so.570.1"], None, None),
        (["/usr/lib/libcuda.so.570.1"], DRIVER, "It is of driver 570.1, and 580.159.04 is installed"),
        (["/usr/lib/libnvidia-ml.so.570.1"], DRIVER, "It is of driver 570.1, and 580.159.04 is installed"),
        (
            [f"/usr/lib/libcuda.so.{DRIVER}", "/usr/lib/libnvidia-ml.so.570.1"],
            DRIVER,
            "It is of driver 570.1, and 580.159.04 is installed",
        ),
        (
            ["/usr/lib/libcuda.so.575.2", "/usr/lib/libnvidia-ml.so.570.1"],
            DRIVER,
            "It is of driver 570.1, 575.2, and 580.159.04 is installed",
        ),
    ],
    ids=[
        "no libraries",
        "the installed one",
        "links without a version",
        "libraries with versions of their own",
        "a name that only ends like it",
        "a name that only begins like it",
        "no path in the container",
        "the installed one cannot be seen",
        "another by libcuda",
        "another by the management library",
        "one of two is another",
        "two others",
    ],
)
def test_a_specification_of_another_driver_is_not_used(
    mounts: list[str], driver: str | None, problem: str | None
) -> None:
    found = fit([specification(("0", ["/dev/nvidia0"]), mounts=mounts)], GPU_0, driver)
    assert found == (Fit(qualified(a="0")) if problem is None else Fit(problem=problem))


def test_one_file_of_another_driver_disqualifies_the_others() -> None:
    stale = specification(mounts=["/usr/lib/libcuda.so.570.1"])
    good = specification(("0", ["/dev/nvidia0"]))
    assert fit([good, stale], GPU_0, DRIVER).problem == "It is of driver 570.1, and 580.159.04 is installed"


def test_a_file_of_another_kind_disqualifies_nothing() -> None:
    other = specification(
        ("0", ["/dev/nvidia0"]), mounts=["/usr/lib/libcuda.so.570.1"], kind="vendor.com/nic"
    )
    good = specification(("0", ["/dev/nvidia0"]))
    assert fit([other, good], GPU_0, DRIVER) == Fit(qualified(a="0"))


def test_devices_may_be_in_several_files() -> None:
    files = [specification(("0", ["/dev/nvidia0"])), specification(("1", ["/dev/nvidia1"]))]
    assert fit(files, GPUS, DRIVER) == Fit(qualified(a="0", b="1"))


@pytest.mark.parametrize("in_one_file", [True, False], ids=["in one file", "in two files"])
def test_an_ambiguous_name_is_not_used_and_another_name_serves(*, in_one_file: bool) -> None:
    twice = [("0", ["/dev/nvidia0"]), ("0", ["/dev/nvidia0"])]
    files = [specification(*twice)] if in_one_file else [specification(one) for one in twice]
    assert fit(files, GPU_0, DRIVER).problem == "It has no device with the nodes of GPU-a and no others"
    files.append(specification(("by-uuid", ["/dev/nvidia0"])))
    assert fit(files, GPU_0, DRIVER) == Fit(qualified(a="by-uuid"))


def test_no_device_is_used_where_one_gpu_is_missing_and_the_first_missing_one_is_named() -> None:
    only_b = specification(("1", ["/dev/nvidia1"]))
    three = {"GPU-c": frozenset({"/dev/nvidia2"}), **GPUS}
    assert fit([only_b], three, DRIVER) == Fit(
        problem="It has no device with the nodes of GPU-a and no others"
    )


@pytest.mark.parametrize(
    "text", ['{"kind": "nvidia.com/gpu"}', '{"kind": "nvidia.com/gpu", "devices": null}']
)
def test_a_specification_without_devices_has_none(text: str) -> None:
    found = msgspec.json.decode(text, type=Specification)
    assert fit([found], GPU_0, DRIVER).problem == "It has no device with the nodes of GPU-a and no others"


def test_edits_of_null_are_none() -> None:
    text = {
        "kind": KIND,
        "devices": [{"name": "0", "containerEdits": {"deviceNodes": None}}],
        "containerEdits": {"mounts": None},
    }
    found = msgspec.convert(text, Specification)
    assert fit([found], GPU_0, DRIVER).problem == "It has no device with the nodes of GPU-a and no others"


NUMBERS = st.integers(0, 3)
NODE_SETS = st.frozensets(NUMBERS.map("/dev/nvidia{}".format), min_size=1, max_size=2)


@given(
    described=st.lists(st.tuples(st.sampled_from("0123ab"), NODE_SETS), max_size=6),
    own=st.dictionaries(st.sampled_from("ab0"), NODE_SETS, min_size=1),
)
def test_each_device_gets_a_name_that_leads_to_its_device_nodes_only(
    described: list[tuple[str, frozenset[str]]], own: dict[str, frozenset[str]]
) -> None:
    found = fit([specification(*((name, sorted(nodes)) for name, nodes in described))], own, None)
    if found.problem is not None:
        assert not found.qualified
    assert (found.problem is None) == all(_is_described(nodes, described) for nodes in own.values())
    for uuid, full in found.qualified.items():
        led_to = [nodes for name, nodes in described if full == f"{KIND}={name}"]
        assert led_to == [own[uuid]], "one device has the name, and it is this one"
    assert found.problem is not None or found.qualified.keys() == own.keys()


def _is_described(nodes: frozenset[str], described: list[tuple[str, frozenset[str]]]) -> bool:
    """Whether a name that is given once leads to these nodes."""
    names = [name for name, _ in described]
    return any(names.count(name) == 1 and led_to == nodes for name, led_to in described)
