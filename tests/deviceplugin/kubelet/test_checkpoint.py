"""Reading the kubelet's checkpoint, whatever is written in it."""

import json
from pathlib import Path
from typing import Any

import pytest

from cluster import names
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.kubelet.checkpoint import NAME, CheckpointError, CheckpointFile, decode

GPU = names.GPU_RESOURCE


def entry(uid: str, container: str, devices: Any, resource: str = GPU) -> dict[str, Any]:
    return {
        "PodUID": uid,
        "ContainerName": container,
        "ResourceName": resource,
        "DeviceIDs": devices,
        "AllocResp": "CgA=",
    }


def written(*entries: dict[str, Any]) -> bytes:
    data = {"PodDeviceEntries": list(entries) or None, "RegisteredDevices": {GPU: ["A", "B"]}}
    return json.dumps({"Data": data, "Checksum": 4026531840}).encode()


def test_devices_are_found_whatever_numa_node_they_are_listed_under() -> None:
    content = written(
        entry("u1", "main", {"-1": ["A"]}),
        entry("u2", "main", {"0": ["B"], "1": ["C", "D"]}),
        entry("u1", "side", {"0": ["E"]}),
    )
    holdings = decode(content, GPU)
    assert holdings.of("u1") == {"A", "E"}
    assert holdings.of("u2") == {"B", "C", "D"}
    assert holdings.holders({"D", "E"}) == {"u1", "u2"}
    assert holdings.has("u1", "side")
    assert not holdings.has("u2", "side")


def test_other_resources_are_left_out() -> None:
    content = written(entry("u1", "main", {"-1": ["A"]}, "example.com/fpga"))
    assert decode(content, GPU) == PodDevices()
    assert decode(content, "example.com/fpga").of("u1") == {"A"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"Data": 7}',
        b'{"Data": {}}',
        b'{"V3": {"Entries": []}}',
        written(entry("u1", "main", ["A"])),
        b"\xff\xfe",
    ],
)
def test_an_unknown_format_is_reported_in_a_message(content: bytes) -> None:
    with pytest.raises(CheckpointError, match="checkpoint has a form that this version does not know"):
        decode(content, GPU)


def test_a_kubelet_that_has_never_written_one_has_given_nothing(tmp_path: Path) -> None:
    assert CheckpointFile(tmp_path, GPU).read() == PodDevices()


def test_an_unreadable_checkpoint_is_reported_in_a_message(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(CheckpointError, match="cannot be read"):
        CheckpointFile(tmp_path, GPU).read()


def test_holdings_include_other_resources_of_gpus() -> None:
    small = f"{names.MIG_RESOURCE_PREFIX}1g.10gb"
    content = written(
        entry("u1", "main", {"-1": ["A"]}),
        entry("u1", "main", {"0": ["MIG-1"]}, small),
        entry("u2", "main", {"0": ["MIG-2"]}, small),
        entry("u3", "main", {"0": ["X"]}, "example.com/fpga"),
    )
    holdings = decode(content, GPU)
    assert not holdings.has("u2", "main"), "of this resource it has nothing"
    assert decode(content, small).has("u2", "main")
    assert (holdings.of("u1"), holdings.holders({"MIG-2"})) == ({"A", "MIG-1"}, {"u2"})
    assert holdings.devices == {"A", "MIG-1", "MIG-2"}
    assert holdings.uids == {"u1", "u2"}
    assert holdings.of_containers == {("u1", "main"): {"A", "MIG-1"}, ("u2", "main"): {"MIG-2"}}
    assert holdings.by_resource(GPU) == {GPU: {"A"}, small: {"MIG-1", "MIG-2"}}
    assert holdings.of_pods({"u2"}).by_resource(GPU) == {small: {"MIG-2"}}
