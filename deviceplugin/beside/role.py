"""What the agent does on its node: it gives out the GPUs itself, or observes how another plugin does.

The composition root builds everything else in the same way for both.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from cluster.objects.device_usage import NodeUsage
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.process.lifecycle import Process
from deviceplugin.allocator import AllocatorSources
from deviceplugin.beside.observer import Observer
from deviceplugin.beside.owner import Way, Whose
from deviceplugin.device_cache import DeviceCache
from deviceplugin.dra.neighbours import Neighbours
from deviceplugin.dra.serving import ClaimServing
from deviceplugin.kubelet.pod_access import PodAccess
from deviceplugin.kubelet.registrations import Registrations
from deviceplugin.kubelet.second_plugin import OtherPlugin, none_is_there
from deviceplugin.nvml.watch import NvmlReport
from deviceplugin.preparation import Preparation
from deviceplugin.process.graceful_shutdown import GracefulShutdown

Loop = Callable[[threading.Event], None]


class Devices(Protocol):
    """Keeps the devices that are published: ``Preparation``, or ``Observer``."""

    def update(self, report: NvmlReport) -> None:
        """Take over a report of the NVML thread."""
        ...

    def cordon(self, cordoned: Mapping[str, str]) -> None:
        """Set the devices that new pods do not get: uuid -> by whom and why."""
        ...

    def share(self, *, is_wanted: bool) -> None:
        """Set whether GPUs may be shared, as far as the settings allow."""
        ...

    def run(self, stop: threading.Event, unresponsive_for: Callable[[], float]) -> None:
        """Keep them current until the stop event is set."""
        ...


class Registered(Protocol):
    """Whether the kubelet has GPUs: ``Registrations``, or ``Observer``."""

    @property
    def is_registered(self) -> bool:
        """Whether the kubelet can give out GPUs."""
        ...

    @property
    def problem(self) -> str | None:
        """Why it cannot, for people."""
        ...


@dataclass(frozen=True, kw_only=True)
class Role:
    """The parts that differ."""

    way: Way
    devices: Devices
    registered: Registered
    shown: DeviceCache
    """The devices that are published."""
    compared_pods: Callable[[], tuple[Pod, ...] | None]
    """Pods whose devices are compared with their assignment; none where a number is assigned."""
    pods_problem: Callable[[], str | None] = lambda: None
    """Why it is not known which pod is being admitted."""
    lasting_problem: Callable[[], str | None] = lambda: None
    other_plugin: Callable[[], str | None] = none_is_there
    """Who else gives out the GPUs, so that this agent does not register, or claims get none."""
    as_reported: Callable[[NodeUsage], NodeUsage] = lambda use: use
    see: Callable[[Node], None] = lambda _: None
    threads: Mapping[str, Loop] = field(default_factory=dict)
    last: Mapping[str, Loop] = field(default_factory=dict)
    """Threads that go on for a moment after the Lease was released."""
    rounds: tuple[str, ...] = ("preparation", "publisher")
    """Threads whose rounds are watched; the agent starts again where the first one is stuck."""

    @property
    def whose(self) -> Whose:
        """Who gives out the GPUs."""
        return self.way.whose

    @classmethod
    def giving(
        cls,
        preparation: Preparation,
        resources: Registrations,
        sources: AllocatorSources,
        access: PodAccess,
        *,
        way: Way,
        other_plugin: OtherPlugin,
    ) -> Self:
        """The agent is the device plugin."""
        return cls(
            way=way,
            devices=preparation,
            registered=resources,
            shown=sources.device_cache,
            compared_pods=sources.pods.at_once,
            pods_problem=lambda: access.problem,
            lasting_problem=lambda: access.lasting_problem,
            other_plugin=other_plugin,
            threads={"pod access": access.run},
            last={"registration": resources.run},
            rounds=("resources", "preparation", "publisher"),
        )

    @classmethod
    def observing(cls, way: Way, observer: Observer) -> Self:
        """Another plugin is."""
        return cls(
            way=way,
            devices=observer,
            registered=observer,
            shown=observer.shown,
            compared_pods=tuple,
            as_reported=observer.as_reported,
            see=observer.observe,
        )

    def by(self, claims: ClaimServing, neighbours: Neighbours) -> Self:
        """The same agent where claims give its devices: those that pods have by resource stay with them."""
        return replace(
            self,
            other_plugin=neighbours,
            devices=_Claimed(self.devices, claims),
            registered=claims,
            last={**self.last, **claims.loops},
        )

    def ending(self, claims: ClaimServing) -> Self:
        """The same agent while claims still have devices: the kubelet can end them only by their driver."""
        return replace(self, last={**self.last, **claims.loops})

    def serve(self, process: Process, last: GracefulShutdown) -> None:
        """Add its threads to the process."""
        for name, body in self.threads.items():
            process.thread(name, body)
        for name, body in self.last.items():
            process.thread(name, last.body(body))

    def serves(self) -> bool:
        """Whether the Lease may say that the node serves."""
        return self.registered.is_registered and self.pods_problem() is None


class _Claimed:
    """Devices that are published for claims as well."""

    def __init__(self, devices: Devices, claims: ClaimServing) -> None:
        self._devices = devices
        self._claims = claims
        self.cordon = devices.cordon
        self.share = devices.share
        self.run = devices.run

    def update(self, report: NvmlReport) -> None:
        """See ``Devices``."""
        self._devices.update(report)
        self._claims.update(report)
