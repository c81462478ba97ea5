"""Devices are judged in whatever order slices and inventories come, and again only where they changed."""

from itertools import permutations
from typing import Any

import msgspec
import pytest

from cluster import names
from cluster.cache.accepted_devices import AcceptedDevices
from cluster.decide.claims.terms import Accepted, Entry, Terms
from cluster.objects.claims import ResourceSlice
from tests.fakes.objects import A100, a100

ANY, ODD = Terms(("any",)), Terms(("large",))
ALL = {f"GPU-{node}-{index}" for node in ("n0", "n1") for index in range(2)}


class Devices:
    """Two nodes with two devices each."""

    def __init__(self) -> None:
        self.judged: list[tuple[str, Any]] = []
        self.pool: dict[str, int] = {}
        """What its slices say of all."""
        self.accepted = AcceptedDevices(names.DRA_DRIVER, self._judge)

    def _judge(self, expression: str, _driver: str, device: Entry) -> bool | None:
        self.judged.append((expression, device["name"]))
        return True if expression == "any" else device.get("large")

    def publish(self, node: str, **more: Any) -> bool:
        """The slice of a node, as it is now."""
        return self.accepted.change_slice(node, None, self._slice(node, **more))

    def counters(self, node: str) -> ResourceSlice:
        """A slice without devices."""
        sets = [{"name": "set"}]
        spec = {"driver": names.DRA_DRIVER, "nodeName": node, "sharedCounters": sets, "pool": self.pool}
        return msgspec.convert({"metadata": {"name": "counters"}, "spec": spec}, ResourceSlice)

    def _slice(self, node: str, **more: Any) -> ResourceSlice:
        entries = [{"name": f"gpu-{index}", "large": True, **more} for index in range(2)]
        spec = {"driver": names.DRA_DRIVER, "nodeName": node, "devices": entries, "pool": self.pool}
        return msgspec.convert({"metadata": {"name": node}, "spec": spec}, ResourceSlice)

    def wipe(self, node: str) -> bool:
        """The kubelet deletes the slice of a node, as it does when it starts."""
        return self.accepted.change_slice(node, self._slice(node), None)

    def take_stock(self, node: str) -> bool:
        """Its inventory."""
        return self.accepted.change_devices(node, {f"gpu-{index}": a100(index, node) for index in range(2)})

    def come(self, *order: int) -> None:
        """What there is comes in this order."""
        steps = [(act, node) for act in (self.publish, self.take_stock) for node in ("n0", "n1")]
        for number in order:
            act, node = steps[number]
            act(node)


@pytest.mark.parametrize("order", list(permutations(range(4))))
@pytest.mark.parametrize("requested", [0, 2, 4])
def test_the_answer_does_not_depend_on_the_order(order: tuple[int, ...], requested: int) -> None:
    devices = Devices()
    devices.come(*order[:requested])
    devices.accepted.of(ANY)
    devices.come(*order[requested:])
    assert devices.accepted.of(ANY) == Accepted(frozenset(ALL), frozenset({A100}), each=2)


def test_only_the_devices_of_a_node_that_changed_are_judged_again() -> None:
    devices = Devices()
    devices.come(0, 1, 2, 3)
    devices.accepted.of(ODD)
    devices.judged.clear()
    assert not devices.publish("n0")
    assert len(devices.judged) == 2
    assert devices.publish("n1", large=False)
    assert devices.accepted.of(ODD) == Accepted(
        frozenset({"GPU-n0-0", "GPU-n0-1"}), frozenset({A100}), each=2
    )


def test_slices_that_are_away_for_a_moment_change_nothing() -> None:
    """Nobody leaves on another node meanwhile: the agent writes them again."""
    devices = Devices()
    devices.come(0, 1, 2, 3)
    before = devices.accepted.of(ANY)
    assert not devices.wipe("n0")
    assert devices.accepted.of(ANY) == before
    assert devices.accepted.of(ODD) == before, "also what was not asked for until then"
    assert not devices.publish("n0")
    assert devices.publish("n0", large=False)
    assert devices.accepted.of(ODD).uuids == {"GPU-n1-0", "GPU-n1-1"}


def test_slices_that_go_and_come_back_one_by_one_change_nothing() -> None:
    devices = Devices()
    devices.come(0, 1, 2, 3)
    before = devices.accepted.of(ANY)
    devices.pool = {"generation": 5, "resourceSliceCount": 2}
    devices.publish("n0")
    first = devices.counters("n0")
    devices.accepted.change_slice("counters", None, first)
    assert not devices.wipe("n0")
    assert not devices.accepted.change_slice("counters", first, None)
    devices.pool = {"generation": 1, "resourceSliceCount": 2}
    again = devices.counters("n0")
    assert not devices.accepted.change_slice("counters", None, again)
    assert not devices.publish("n0")
    assert devices.accepted.of(ANY) == before
    devices.pool = {"generation": 2, "resourceSliceCount": 1}
    assert not devices.accepted.change_slice("counters", again, devices.counters("n0"))
    assert devices.wipe("n0"), "its agent has deleted it: it has published the others anew"


def test_of_a_node_without_slices_and_inventory_nothing_is_left() -> None:
    devices = Devices()
    devices.come(0, 1, 2, 3)
    devices.accepted.of(ANY)
    devices.wipe("n0")
    assert devices.accepted.change_devices("n0", {})
    assert devices.accepted.of(ANY) == Accepted(
        frozenset({"GPU-n1-0", "GPU-n1-1"}), frozenset({A100}), each=2
    )


def test_what_is_unknown_of_one_device_is_unknown_of_all() -> None:
    """kube-scheduler gives up where an expression fails, whatever other nodes have."""
    devices = Devices()
    devices.come(0, 1, 2, 3)
    assert devices.accepted.of(ODD).unknown is None
    devices.publish("n1", large=None)
    assert devices.accepted.of(ODD).unknown == "the expression large cannot be evaluated here"
