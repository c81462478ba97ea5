"""Writes what claims can be given on this node: its ResourceSlices, one pool with the node's name.

Every change is a new generation of the whole pool. The kubelet deletes the slices of a driver that is gone
for 30 s and of a node that restarts, so they are read again regularly.
"""

import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Protocol

import structlog

from cluster import claim_names, names
from cluster.kube.backoff import Backoff
from cluster.kube.errors import ApiError, NotFound, Unprocessable
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import NODES, RESOURCE_SLICES
from cluster.objects.claims import ResourceSlice
from cluster.objects.quantity import QuantityError, parse_amount
from cluster.process.clock import Clock
from cluster.process.stop_events import wake_at
from deviceplugin.dra.counters import Entry
from deviceplugin.dra.slices import CONSUMES, Published, Stored, parts

log = structlog.get_logger(__name__)

READ_EVERY: Final = 10.0
"""Seconds between two reads of the slices."""
SHARED: Final = "allowMultipleAllocations"
NO_SHARES: Final = (
    "The API server does not store that several claims may have a device (the gate DRAConsumableCapacity, on"
    f" by default from Kubernetes 1.36 on): {names.setting('dra_shares')} has no effect, and claims get whole"
    " GPUs."
)
OFTEN: Final = 1.0
"""The same for a while after the kubelet has registered the driver."""


class Wanted(Protocol):
    """Knows the devices that are to be published."""

    def __call__(self, stored: Stored) -> Published | None:
        """The devices, with what the API server stores of them; None while they are not known."""
        ...


def slices_of(kube: Kube, node: str, driver: str) -> dict[str, ResourceSlice]:
    """Name -> slice of this node for a driver of this name, whoever wrote it.

    Raises:
        ApiError: they cannot be read.
    """
    selected = Selection(field_selector=f"spec.nodeName={node},spec.driver={driver}")
    return {one.metadata.name: one for one in kube.list(RESOURCE_SLICES, selected).items}


def foreign_slices(kube: Kube, node: str, driver: str) -> tuple[str, ...]:
    """Names of those that another driver has published.

    Raises:
        ApiError: they cannot be read.
    """
    ours = f"{claim_names.SLICE_PREFIX}{node}-"
    return tuple(sorted(name for name in slices_of(kube, node, driver) if not name.startswith(ours)))


def beside_another_driver(its_slice: str, driver: str) -> str:
    """What is wrong there, and what to do about it, for people."""
    return (
        f"Another driver has published {its_slice} for {driver} on this node: remove that driver, or set"
        f" {names.setting('dra_driver')}, and delete its ResourceSlices."
    )


class SlicePublisher:
    """The thread that writes the slices."""

    def __init__(
        self,
        kube: Kube,
        *,
        node: str,
        driver: str,
        wanted: Wanted,
        clock: Clock,
    ) -> None:
        """Args: wanted: the devices."""
        self._kube = kube
        self._node = node
        self._driver = driver
        self._wanted = wanted
        self._clock = clock
        self._backoff = Backoff()
        self._wake = threading.Event()
        self._stored = Stored()
        self._often_until = 0.0
        self._problem: str | None = "The devices have not been published yet."
        self._foreign: str | None = None

    @property
    def problem(self) -> str | None:
        """Why the slices are not current, for people; None if they are."""
        return self._foreign or self._problem

    def foreign(self) -> str | None:
        """A message, if another driver of this name has published devices of this node; else None."""
        return self._foreign

    def wake(self) -> None:
        """Look again now."""
        self._wake.set()

    def registered(self) -> None:
        """Look often for a while: a kubelet that has just started may yet delete the slices of its node."""
        self._often_until = self._clock.monotonic() + READ_EVERY
        self.wake()

    def run(self, stop: threading.Event) -> None:
        """Keep the slices current until the stop event is set."""
        wake_at(stop, self._wake)
        while not stop.is_set():
            self._wake.clear()
            pause = OFTEN if self._clock.monotonic() < self._often_until else READ_EVERY
            try:
                self.once()
                self._backoff.reset()
            except ApiError as error:
                self._problem = f"The ResourceSlices of {self._node} cannot be written: {error}"
                log.warning("the slices could not be written", message=self._problem)
                pause = self._backoff.next()
            self._clock.wait(self._wake, pause)

    def once(self) -> None:
        """Compare what is published with what should be, and write it.

        Raises:
            ApiError: the API server does not take it.
        """
        have = slices_of(self._kube, self._node, self._driver)
        ours = f"{claim_names.SLICE_PREFIX}{self._node}-"
        foreign = sorted(name for name in have if not name.startswith(ours))
        self._foreign = beside_another_driver(foreign[0], self._driver) if foreign else None
        if foreign:
            self._remove(name for name in have if name.startswith(ours))
            return
        found = self._wanted(self._stored)
        if found is None:
            return
        want = {f"{ours}{end}": part for end, part in parts(found).items()}
        if not self._is_current(have, want):
            try:
                self._write(have, want)
            except Unprocessable:
                if not found.counter_sets:
                    raise
                # Before 1.35 counters must be in the slice of their devices, where the gate is on.
                self._without_counters()
                return
        self._problem = None

    def _is_current(self, have: dict[str, ResourceSlice], want: dict[str, Entry]) -> bool:
        if set(have) != set(want) or len({one.spec.pool.generation for one in have.values()}) > 1:
            return False
        return all(_comparable(_content(have[name])) == _comparable(part) for name, part in want.items())

    def _write(self, have: dict[str, ResourceSlice], want: dict[str, Entry]) -> None:
        generation = max((one.spec.pool.generation for one in have.values()), default=0) + 1
        owner = self._owner()
        for name, part in want.items():
            spec = {
                "driver": self._driver,
                "nodeName": self._node,
                "pool": {"name": self._node, "generation": generation, "resourceSliceCount": len(want)},
                **part,
            }
            body: dict[str, Any] = {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}
            if name in have:
                stored = self._kube.patch(RESOURCE_SLICES, name, {"spec": spec})
            else:
                stored = self._kube.create(RESOURCE_SLICES, body)
            self._learn(part, stored)
        self._remove(have.keys() - want.keys())
        devices = sum(len(part.get("devices", ())) for part in want.values())
        log.info("devices for claims published", generation=generation, devices=devices)

    def _remove(self, surplus: Iterable[str]) -> None:
        for name in surplus:
            with suppress(NotFound):
                self._kube.delete(RESOURCE_SLICES, name)

    def _learn(self, part: Entry, slice_: ResourceSlice) -> None:
        """An API server before 1.36 drops what it does not know, and says nothing."""
        written, stored = part.get("devices", ()), slice_.spec.devices
        if self._stored.taints and _those_with("taints", written) != _those_with("taints", stored):
            self._stored = replace(self._stored, taints=False)  # unhealthy devices are left out
            self._wake.set()
        if self._stored.shares and _those_with(SHARED, written) != _those_with(SHARED, stored):
            self._stored = replace(self._stored, shares=False)
            self._wake.set()
            log.warning("GPUs are not given in shares by claims", message=NO_SHARES)
        has_lost_sets = len(slice_.spec.shared_counters) < len(part.get("sharedCounters", ()))
        if has_lost_sets or _those_with(CONSUMES, written) != _those_with(CONSUMES, stored):
            self._without_counters()

    def _without_counters(self) -> None:
        if not self._stored.counters:
            return
        self._stored = replace(self._stored, counters=False)
        self._wake.set()
        log.info("MIG devices are published without counters: the API server does not store these")

    def _owner(self) -> dict[str, str]:
        node = self._kube.get(NODES, self._node)
        return {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": node.metadata.uid}


def _those_with(field: str, devices: Iterable[Entry]) -> list[str]:
    return [device["name"] for device in devices if device.get(field)]


def _content(one: ResourceSlice) -> Entry:
    return {"devices": one.spec.devices, "sharedCounters": one.spec.shared_counters}


def _comparable(part: Entry) -> Entry:
    """What a slice has, without what the API server adds and without its spelling of amounts."""
    return {
        "sharedCounters": _amounts(part.get("sharedCounters", ())),
        "devices": [
            {
                **device,
                "capacity": _amounts(device.get("capacity") or {}),
                CONSUMES: _amounts(device.get(CONSUMES) or ()),
                "taints": [
                    {key: value for key, value in taint.items() if key != "timeAdded"}
                    for taint in device.get("taints") or ()
                ],
            }
            for device in part.get("devices", ())
        ],
    }


def _amounts(value: Any) -> Any:
    """The same with each quantity as a number: the API server writes 16777216000 as 16777216k."""
    if isinstance(value, dict):
        return {key: _amounts(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_amounts(one) for one in value]
    try:
        return parse_amount(str(value))
    except QuantityError:
        return value
