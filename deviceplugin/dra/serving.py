"""The parts of the driver, put together: for the agent's composition root."""

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import structlog

from cluster import claim_names
from cluster.kube.interface import Kube
from cluster.objects.pods import Pod, is_terminal
from cluster.objects.slots import physical
from cluster.process.clock import Clock
from deviceplugin.advertised import shared_memory
from deviceplugin.allocator import AllocatorSources
from deviceplugin.dra.claim_files import ClaimFiles, Specification
from deviceplugin.dra.counters import counted
from deviceplugin.dra.driver import ClaimDriver, Pool
from deviceplugin.dra.neighbours import Neighbours
from deviceplugin.dra.prepared import PreparedError, PreparedFile, under_another_name
from deviceplugin.dra.registration import DriverRegistration, Endpoints
from deviceplugin.dra.servicer import Health
from deviceplugin.dra.slice_publisher import SlicePublisher
from deviceplugin.dra.slices import Published, Stored, Surroundings, entries, offered
from deviceplugin.injection.share_edits import Hook
from deviceplugin.kubelet.checkpoint import CheckpointError
from deviceplugin.kubelet.claim_users import ClaimUsers, ClaimUsersError
from deviceplugin.kubelet.registration import SocketNames
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.nvml.watch import NvmlReport
from deviceplugin.usage.claimed import ClaimedPart

log = structlog.get_logger(__name__)

REFRESH_EVERY: Final = 10.0
"""Seconds between two looks at whether the claims' files are current."""
UNHEALTHY: Final = "unhealthy"
"""State of a device whose state has no name."""
_NOT_IN_A_VALUE: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def prepared_file(kubelet_root: Path, driver: str, proc_root: Path) -> PreparedFile:
    """The record of claims that are prepared on this node."""
    try:
        boot = (proc_root / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    drivers = kubelet_root / "plugins"
    return PreparedFile(drivers / driver / claim_names.CLAIMS_FILE, boot, drivers)


@dataclass(frozen=True, kw_only=True)
class ClaimSharing:
    """How GPUs are given in shares by claims."""

    is_offered: bool = False
    reserve: int = 0
    """MiB of each GPU that are not given in shares, besides the driver's own."""
    hook: Hook | None = None
    """A library that limits containers with shares."""


class ClaimServing:
    """Gives the node's GPUs by claims."""

    def __init__(
        self,
        endpoints: Endpoints,
        sources: AllocatorSources,
        kube: Kube,
        *,
        node: str,
        kubelet_state: Path,
        cdi: Path,
        specification: Specification,
        file: PreparedFile,
        clock: Clock,
        sharing: ClaimSharing,
        has_counters: bool = True,
        is_ending: bool = False,
        is_waiting: bool = False,
        neighbours: Neighbours | None = None,
        root_of: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """Nothing is served yet.

        With ``has_counters`` MIG devices have them, if they are stored. With ``is_ending`` the node gives its
        GPUs in another way now: none are offered, claims only end. With ``is_waiting`` it is to do so: none
        are offered, but claims that have one go on. While ``neighbours`` knows of somebody none are offered,
        and nothing is prepared anew. ``root_of`` knows the PCIe root of a PCI address.
        """
        self._name = endpoints.driver
        self._is_ending = is_ending
        self._is_waiting = is_waiting
        self._neighbours = neighbours or Neighbours()
        self._file = file
        self._has_counters = has_counters
        self._sharing = sharing
        self._sources = sources
        self._clock = clock
        self._devices: dict[str, NodeDevice] = {}
        self._around = Surroundings(root_of=root_of)
        self._known = False
        pool = self._pool(endpoints.driver, node)
        self.driver = ClaimDriver(
            pool,
            kube,
            sources.device_cache,
            file=file,
            files=ClaimFiles(cdi, specification, sharing.hook),
            kubelet_state=kubelet_state,
            clock=clock,
        )
        self.publisher = SlicePublisher(
            kube, node=node, driver=endpoints.driver, wanted=self._wanted, clock=clock
        )
        self.registration = DriverRegistration(
            endpoints,
            self.driver,
            Health(pool, sources.device_cache, clock),
            pool,
            rejection=self._rejection,
            registered=self.publisher.registered,
            clock=clock,
        )

    @property
    def is_registered(self) -> bool:
        """Whether the kubelet has the driver, and the scheduler its devices."""
        return self.problem is None

    @property
    def problem(self) -> str | None:
        """Why the node gives no GPUs by claims, for people; None if it does."""
        return self._neighbours() or self.registration.problem or self.publisher.problem

    def update(self, report: NvmlReport) -> None:
        """Take over a report of the NVML thread."""
        self._devices = offered(report.devices)
        if report.versions:
            self._around = replace(
                self._around, driver_version=report.versions.driver, cuda_version=report.versions.cuda
            )
        self._known = True
        self.publisher.wake()

    @property
    def loops(self) -> Mapping[str, Callable[[threading.Event], None]]:
        """Threads that serve the driver and publish its devices, until their stop event is set."""
        return {
            "claims": self.registration.run,
            "claims-slices": self.publisher.run,
            "claims-changes": self._listen,
        }

    def _listen(self, stop: threading.Event) -> None:
        """Publish again when health has changed, and keep the claims' files current."""
        changed, refreshed_at = threading.Event(), self._clock.monotonic()
        with self._sources.device_cache.listening(changed):
            while not stop.is_set():
                if self._clock.wait(changed, 1.0):
                    changed.clear()
                    self.publisher.wake()
                if self._clock.monotonic() - refreshed_at >= REFRESH_EVERY:
                    self.driver.refresh()
                    refreshed_at = self._clock.monotonic()

    def _pool(self, driver: str, node: str) -> Pool:
        return Pool(
            driver=driver,
            node=node,
            devices=self._uuids,
            taken=self._taken,
            shares=self._shares,
            closed=self._closed,
        )

    def _rejection(self) -> str | None:
        """Why the driver must not be served: another driver has the devices. Claims that have some go on."""
        foreign = self._beside_a_driver()
        if self._neighbours.look(foreign):
            self.publisher.wake()
        return foreign if foreign is not None and not has_claims(self._file) else None

    def _closed(self) -> str | None:
        """Why nothing is prepared anew."""
        return self._beside_a_driver() or self._neighbours.beside_a_plugin()

    def _beside_a_driver(self) -> str | None:
        return self.publisher.foreign() or under_another_name(self._file, self._name)

    def _uuids(self) -> dict[str, str]:
        return {name: device.uuid for name, device in self._devices.items()}

    def _shares(self) -> dict[str, int]:
        """UUID -> MiB for shares, offered now or not: claims may have been given some earlier."""
        memory = {one.uuid: shared_memory(one, self._sharing.reserve) for one in self._devices.values()}
        return {uuid: amount for uuid, amount in memory.items() if amount}

    def _wanted(self, stored: Stored) -> Published | None:
        is_closed = self._neighbours() is not None or under_another_name(self._file, self._name) is not None
        if self._is_ending or self._is_waiting or is_closed:
            return Published()
        now = self._sources.device_cache.now
        if not self._known or not now.reported:
            return None
        known = {name: one for name, one in self._devices.items() if one.uuid in now.nodes.of_device}
        states = {one.uuid: one.state.value for one in self._devices.values()}
        unhealthy = {
            device.uuid: _value(states.get(device.uuid, UNHEALTHY), is_cordoned=device.uuid in now.cordoned)
            for device in now.devices
            if not device.is_healthy
        }
        return entries(
            known,
            self._around,
            unhealthy=unhealthy,
            taken=self._taken(),
            with_taints=stored.taints,
            shares=self._shares() if self._sharing.is_offered and stored.shares else None,
            counters=counted(self._devices.values()) if self._has_counters and stored.counters else None,
        )

    def _taken(self) -> frozenset[str]:
        """UUIDs of devices that living pods have by the device plugin."""
        try:
            found = self._sources.checkpoint.read()
        except CheckpointError:
            return frozenset(self._sources.device_cache.now.by_uuid)
        pods: tuple[Pod, ...] | None = self._sources.pods.at_once() if found.uids else ()
        if pods is not None:
            found = found.of_pods({pod.metadata.uid for pod in pods if not is_terminal(pod)})
        return frozenset(
            physical(one) for ids in found.by_resource(self._sources.resource).values() for one in ids
        )


def _value(state: str, *, is_cordoned: bool) -> str:
    if is_cordoned:
        return "cordoned"
    return _NOT_IN_A_VALUE.sub("-", state).strip("-.") if state != "healthy" else UNHEALTHY


def has_claims(file: PreparedFile) -> bool:
    """Whether claims may be prepared on this node; they may if the record cannot be read."""
    try:
        return bool(file.read())
    except PreparedError:
        return True


def claimed_parts(file: PreparedFile, users: ClaimUsers) -> tuple[ClaimedPart, ...] | None:
    """What claims have of the devices of this node, for measuring who uses more.

    None if the record of claims cannot be read. Which pods use a claim only the kubelet says.
    """
    try:
        claims = file.read_all().values()
    except PreparedError as error:
        log.warning("the record of claims cannot be read", message=str(error))
        return None
    try:
        pods = users.read() if claims else {}
    except ClaimUsersError as error:
        log.warning("which pods use claims cannot be read", message=str(error))
        pods = {}
    return tuple(
        ClaimedPart(claim.uid, one.uuid, one.memory, pods.get(claim.uid, frozenset()))
        for claim in claims
        for one in claim.devices
        if not one.is_admin
    )


def held_by_claims(file: PreparedFile) -> frozenset[str] | None:
    """UUIDs of the devices that claims have on this node, for the device plugin.

    None if the record cannot be read: then claims may have any of them.
    """
    try:
        claims = file.read_all().values()
    except PreparedError as error:
        log.warning("the record of claims cannot be read", message=str(error))
        return None
    return frozenset(one.uuid for claim in claims for one in claim.devices if not one.is_admin)


__all__ = [
    "ClaimServing",
    "ClaimSharing",
    "Endpoints",
    "SocketNames",
    "claimed_parts",
    "has_claims",
    "held_by_claims",
    "prepared_file",
]
