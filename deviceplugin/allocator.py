"""Answers the kubelet's three calls from a current snapshot, for ``plugin``.

During the first two the kubelet admits no other pod of the node, without any time limit, and an error fails
the pod permanently. So this module uses no NVML, no lock that a thread in the driver could hold, and no API
server (unless the kubelet's Pods API does not answer), and every failure in it still ends in an answer.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import structlog

from cluster.objects.inventory import Device
from cluster.objects.pods import Pod, is_terminal
from cluster.objects.slots import is_slot, physical
from cluster.process.clock import Clock
from deviceplugin.allocation import prestart
from deviceplugin.allocation.held_elsewhere import held_elsewhere
from deviceplugin.allocation.mig_packing import DevicePick
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.allocation.preferred import (
    AllocationRequest,
    Decision,
    NodeState,
    Verdict,
    choose,
    in_order,
)
from deviceplugin.allocation.prestart import StartDecision, StartVerdict
from deviceplugin.allocation.share_limits import overfull
from deviceplugin.device_cache import DeviceCache
from deviceplugin.kubelet.checkpoint import CheckpointError, CheckpointReader
from deviceplugin.kubelet.pod_source import PodSource, PodsSnapshot
from deviceplugin.metrics import AgentMetrics

log = structlog.get_logger(__name__)

T = TypeVar("T")

REJECTED_SECONDS: Final = (0.02, 0.05, 0.1, 0.2)
"""Pauses after which the API server is asked again, if several pods may be meant. Kubelets before 1.34 list
those that they have rejected, too, and write that into their status at once."""
_UNCOUNTED: Final = frozenset({StartVerdict.OTHER_DEVICES, StartVerdict.UNASSIGNED})
"""Of such shares nobody has made sure that there is room for them."""
MOST_SERVED: Final = 1000
"""Number of pods with devices to remember: many times the number that a node gets in two minutes."""


def first_devices(
    known: Mapping[str, Device], free: Sequence[str], chosen: frozenset[str], count: int
) -> Sequence[str]:
    """The first free devices; see ``in_order``."""
    del known
    return in_order(free, chosen, count)


@dataclass(frozen=True, kw_only=True)
class AllocatorSources:
    """The sources that are read while the kubelet waits."""

    resource: str
    device_cache: DeviceCache
    checkpoint: CheckpointReader
    pods: PodSource
    pick: DevicePick = first_devices
    """Chooses devices for a container without an assignment."""


class Allocator:
    """Answers the kubelet. It makes the first two calls one at a time, the third in parallel."""

    def __init__(self, sources: AllocatorSources, *, metrics: AgentMetrics, clock: Clock) -> None:
        self._sources = sources
        self._served: dict[str, None] = {}
        """Uids that were in the checkpoint, the latest last."""
        self._metrics = metrics
        self._clock = clock

    def begin(self) -> None:
        """The kubelet has just begun to read the devices: perhaps it is another one than before."""
        self._sources.pods.forget_admissions()

    def prefer(self, request: AllocationRequest) -> Decision:
        """The devices that the container which is being admitted should get."""
        began = self._clock.monotonic()
        choice = _in_any_case(lambda: self._choose(request), lambda: self._without_knowledge(request))
        self._metrics.admissions.labels(choice.verdict).inc()
        self._metrics.admission_seconds.observe(self._clock.monotonic() - began)
        log.log(
            _level(choice),
            "devices chosen",
            verdict=choice.verdict,
            pod=choice.pod.key if choice.pod else None,
            container=choice.container,
            devices=choice.devices,
            message=choice.message or None,
        )
        return choice

    def held(self, devices: frozenset[str]) -> str | None:
        """Why these devices may not be allocated, as a message; None if they may."""
        message = _in_any_case(lambda: self._held(devices), lambda: None)
        self._metrics.allocations.labels("refused" if message else "given").inc()
        if message:
            self._sources.pods.refused()
            log.error("allocation refused", message=message)
        return message

    def gate(self, devices: frozenset[str]) -> StartDecision:
        """Whether the container that has exactly these devices may start."""
        holdings = self._holdings()
        holders = holdings.holders(devices) if holdings else frozenset()
        pods = self._sources.pods.of(holders) if holders else {}
        now = self._sources.device_cache.now
        decision = prestart.decide(
            devices,
            holdings,
            pods,
            now.startable,
            other_resources=now.other_resources(self._sources.resource),
        )
        if decision.gate in _UNCOUNTED and holdings is not None:
            decision = self._with_room(decision, devices, holdings)
        self._metrics.starts.labels(decision.gate).inc()
        if not decision.is_open:
            log.warning(
                "the start of a container was refused", verdict=decision.gate, message=decision.message
            )
        elif decision.gate is StartVerdict.OTHER_DEVICES:
            log.warning(
                "a container has other devices than assigned", uid=decision.uid, message=decision.message
            )
        return decision

    def _with_room(
        self, decision: StartDecision, devices: frozenset[str], holdings: PodDevices
    ) -> StartDecision:
        """The decision for devices that nobody has assigned; no GPU may be shared beyond what it offers."""
        shared = {physical(device) for device in devices if is_slot(device)}
        pods = self._sources.pods.at_once() if shared else None
        if pods is None:
            return decision
        known = self._sources.device_cache.now.by_uuid
        living = [pod for pod in pods if not is_terminal(pod)]
        full = overfull(shared, known, holdings, living)
        return decision if full is None else prestart.too_full(decision, full)

    def _without_knowledge(self, request: AllocationRequest) -> Decision:
        """The answer if nothing is known about pods and their devices."""
        return choose(request, NodeState(self._sources.resource, None, None))

    def _choose(self, request: AllocationRequest) -> Decision:
        decision = choose(request, self._state(request))
        if not decision.has_candidate and self._sources.pods.caught_up():
            decision = choose(request, self._state(request))
        for seconds in REJECTED_SECONDS:
            if decision.verdict is not Verdict.AMBIGUOUS or not self._sources.pods.caught_up():
                break
            decision = choose(request, self._state(request))
            if decision.verdict is Verdict.AMBIGUOUS:
                self._clock.wait(threading.Event(), seconds)
        if decision.pod is not None:
            self._sources.pods.admitted(decision.pod.metadata.uid)
        elif not decision.devices:
            self._sources.pods.refused()
        if busy := decision.busy:
            self._metrics.busy_available.inc(len(busy))
            log.warning("the kubelet offers devices that other running pods hold", devices=sorted(busy))
        return decision

    def _state(self, request: AllocationRequest) -> NodeState:
        seen = self._sources.pods.for_admission(in_flight=bool(request.must_include))
        for message in seen.messages:
            log.warning("the kubelet's Pods API cannot be used", message=message)
        holdings = self._holdings()
        now = self._sources.device_cache.now
        return NodeState(
            self._sources.resource,
            holdings,
            self._without_replaced(seen, holdings),
            remembered=seen.remembered,
            from_watch=seen.from_watch,
            settled=seen.settled,
            bindings=seen.bindings,
            pick=partial(self._sources.pick, now.by_uuid),
            other_resources=now.other_resources(self._sources.resource),
        )

    def _without_replaced(self, seen: PodsSnapshot, holdings: PodDevices | None) -> tuple[Pod, ...] | None:
        """The pods without those that had devices and whose name a later pod has: they have ended."""
        if seen.pods is None:
            return None
        for uid in holdings.uids if holdings is not None else ():
            self._served.pop(uid, None)
            self._served[uid] = None
        for uid in tuple(self._served)[:-MOST_SERVED]:
            del self._served[uid]
        ended = seen.replaced & self._served.keys()
        return tuple(pod for pod in seen.pods if pod.metadata.uid not in ended)

    def _held(self, devices: frozenset[str]) -> str | None:
        """As ``held``; the pods are read only if one of the devices is in the checkpoint already."""
        holdings = self._holdings()
        if holdings is None or not holdings.holders(devices):
            return None
        return held_elsewhere(
            devices, NodeState(self._sources.resource, holdings, self._sources.pods.at_once())
        )

    def _holdings(self) -> PodDevices | None:
        try:
            return self._sources.checkpoint.read()
        except CheckpointError as error:
            self._metrics.checkpoint_errors.inc()
            log.error("the kubelet's checkpoint cannot be read", message=str(error))  # noqa: TRY400 - no traceback
            return None


def _level(choice: Decision) -> int:
    if not choice.devices:
        return 40
    return 20 if choice.verdict in {Verdict.ASSIGNED, Verdict.UNASSIGNED} else 30


def _in_any_case(answer: Callable[[], T], otherwise: Callable[[], T]) -> T:
    """The answer, or that of ``otherwise`` after an unexpected failure, which is logged."""
    try:
        return answer()
    except Exception:
        log.exception("internal error while answering the kubelet")
        return otherwise()
