"""How well two GPUs are linked."""

import pytest

from cluster.objects.inventory import Device
from deviceplugin.allocation.link_scores import scores


def gpu(number: int, numa: int | None = None, **links: int) -> Device:
    return Device(uuid=f"G{number}", index=number, model="X", numa=numa, links=links or None)


@pytest.mark.parametrize(("way", "score"), [(0, 60), (10, 50), (20, 40), (30, 30), (40, 20), (50, 10)])
def test_the_bus_topology_counts_as_in_nvidia_s_allocator(way: int, score: int) -> None:
    assert scores((gpu(0), gpu(1)), {"G0": {"G1": way}}) == {"G0": {"G1": score}, "G1": {"G0": score}}


def test_every_nvlink_counts_a_hundred_besides_the_bus_topology() -> None:
    assert scores((gpu(0, G1=12), gpu(1, G0=12)), {"G0": {"G1": 50}})["G1"]["G0"] == 1210


def test_links_that_only_one_end_reports_count_in_both_directions() -> None:
    found = scores((gpu(0, G1=4), gpu(1)), {})
    assert found["G0"]["G1"] == found["G1"]["G0"] == 410


def test_numa_nodes_count_where_the_driver_does_not_report_the_bus_topology() -> None:
    found = scores((gpu(0, 0), gpu(1, 0), gpu(2, 1), gpu(3)), {})
    assert (found["G0"]["G1"], found["G0"]["G2"], found["G0"]["G3"]) == (20, 10, 10)


def test_links_to_anything_but_gpus_of_the_node_do_not_count() -> None:
    assert scores((gpu(0, G9=4), gpu(1)), {}) == {"G0": {"G1": 10}, "G1": {"G0": 10}}
