"""A kubelet: takes pods on with the devices that are written on them, runs them, ends them, and reports it.

It asks the node agent as the real one does: without an agent, or where another living pod has a device, the
pod fails at admission. What it gave is written in its checkpoint, which outlives it, as do the containers.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from cluster import names
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.reflector import Reflector
from cluster.kube.resources import NODES, PODS, WHOLE_PODS, WholePod
from cluster.objects.assignment import AssignmentError, assignment_of
from cluster.objects.inventory import Device, resource_of
from cluster.objects.pods import Pod, container_needs, is_terminal, is_terminating
from cluster.objects.slots import is_slot, physical, slots_of
from demo.simulation.loop import Life
from demo.simulation.part import Part
from demo.simulation.surroundings import Surroundings
from deviceplugin.allocation.pod_devices import PodDevices, excluded

Json = dict[str, Any]

STARTS_WITHIN: Final = 1.0
"""Seconds from admission to running containers; each init container takes as long."""
ENDS_WITHIN: Final = 2.0
"""Seconds that a container takes to end after SIGTERM."""
REFUSED: Final = "UnexpectedAdmissionError"
"""``status.reason`` of a pod that failed at admission."""
NOT_STARTED: Final = {
    "exitCode": 128,
    "reason": "StartError",
    "message": "failed to start containerd task: context canceled",
    "startedAt": "1970-01-01T00:00:00Z",
}
"""A container that could not be started, as kubelet 1.37 reports it with containerd 2."""
HEARTBEAT: Final = 10.0
AGAIN_AFTER: Final = 1.0


class RegisteredAgent(Protocol):
    """A node agent, as its kubelet knows it."""

    devices: tuple[Device, ...]
    life: Life

    def kubelet_changed(self) -> None:
        """The kubelet has begun to listen, or has ceased to."""
        ...


@dataclass
class Sandbox:
    """A pod on the machine: it runs on while the kubelet is away."""

    pod: Pod
    whole: WholePod
    starts: float
    ends: float | None = None
    """When its containers end; None while nothing ends them."""
    killed_at: float | None = None
    phase: str = "Succeeded"
    """How it ends."""
    refused: str | None = None
    """Why it failed at admission."""
    not_started: bool = False
    """Whether its containers could not be started."""
    reported: str = ""
    """The phase that was written last."""

    def state(self, now: float) -> str:
        """Pending, Running, or its end."""
        if self.refused:
            return "Failed"
        if self.ends is not None and now >= self.ends:
            return self.phase
        return "Running" if now >= self.starts else "Pending"

    @property
    def has_ended(self) -> bool:
        """Whether its end was seen."""
        return self.reported in ("Succeeded", "Failed")


@dataclass
class Machine:
    """What stays when the kubelet dies: containers and checkpoint."""

    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    checkpoint: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    """(pod uid, container) -> devices."""


class Kubelet(Part):
    """The kubelet of one node."""

    latency = 0.01

    def __init__(self, world: Surroundings, node: str) -> None:
        super().__init__(world, f"kubelet {node}")
        self.user = f"system:node:{node}"
        self.node = node
        self.machine = Machine()
        self.is_runtime_away = False
        """Whether containers fail to start, because the container runtime is restarted."""
        self.agent: RegisteredAgent | None = None
        """The node agent that is registered with it."""
        self.tells_devices = True
        """Whether it says in a pod's status which devices it chose, as from Kubernetes 1.36 on."""

    def build(self) -> None:
        """A new process on the same machine."""
        self.follow(
            Reflector(self.kube, WHOLE_PODS, self, self.clock, field_selector=f"spec.nodeName={self.node}")
        )
        self.every(HEARTBEAT, self._heartbeat, is_sign_of_life=True)
        for sandbox in self.machine.sandboxes.values():
            self._expect(sandbox)
        if self.agent:
            self.agent.kubelet_changed()

    def died(self) -> None:
        """Streams end with it; the agent registers again as soon as it is back."""
        if self.agent and self.agent.life.alive:
            self.agent.kubelet_changed()

    @property
    def holdings(self) -> PodDevices:
        """Its checkpoint."""
        return PodDevices(dict(self.machine.checkpoint))

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods that it knows."""
        return tuple(sandbox.pod for sandbox in self.machine.sandboxes.values())

    def _heartbeat(self) -> None:
        try:
            self._advertise()
        except ApiError:
            return
        self.world.heartbeat(self.node)

    def advertise(self) -> None:
        """The agent has advertised other devices."""
        try:
            self._advertise()
        except ApiError:
            self.after(AGAIN_AFTER, self.advertise)

    def _advertise(self) -> None:
        devices = self.agent.devices if self.agent else ()
        is_there = self.agent is not None and self.agent.life.alive
        capacity = Counter({names.GPU_RESOURCE: 0})
        healthy = Counter(dict.fromkeys({names.GPU_RESOURCE, *map(resource_of, devices)}, 0))
        capacity.update(map(resource_of, devices))
        healthy.update(resource_of(device) for device in devices if is_there and device.is_healthy)
        offered = {d.uuid: d.share.slots for d in devices if d.share and not d.numbered}
        if offered:
            there = [device for device in devices if is_there and device.is_healthy]
            capacity[names.SHARED_RESOURCE] = sum(offered.values())
            healthy[names.SHARED_RESOURCE] = sum(
                offered.get(d.uuid, 0) for d in there if d.uuid not in self._held
            )
            shared = {physical(each) for each in self._held if is_slot(each)}
            healthy[names.GPU_RESOURCE] -= sum(device.uuid in shared for device in there)
        amounts = {"capacity": capacity, "allocatable": healthy}
        status = {part: {key: str(count) for key, count in found.items()} for part, found in amounts.items()}
        self.kube.patch(NODES, self.node, {"status": status}, subresource="status")

    @property
    def _held(self) -> frozenset[str]:
        """The ids in its checkpoint: as ``deviceplugin.advertised`` has it, a GPU is whole or in slots."""
        return frozenset[str]().union(*self.machine.checkpoint.values())

    # --- its events ------------------------------------------------------------------------------------
    def replace(self, items: Sequence[WholePod], _version: str, /) -> None:
        """Every pod of the node; the containers of others are ended."""
        uids = {item.metadata.uid for item in items}
        for uid, sandbox in list(self.machine.sandboxes.items()):
            if uid not in uids:
                self.remove(sandbox.whole)
        for item in items:
            self.upsert(item)

    def upsert(self, whole: WholePod, /) -> None:
        """A pod is bound to the node, or has changed."""
        pod = self.world.read(whole)
        uid = whole.metadata.uid
        sandbox = self.machine.sandboxes.get(uid)
        if sandbox is None:
            if is_terminal(pod):
                return
            sandbox = self.machine.sandboxes[uid] = self._taken_on(pod, whole)
        sandbox.pod, sandbox.whole = pod, whole
        if is_terminating(pod):
            self._terminate(sandbox)
        self._report(sandbox)

    def remove(self, whole: WholePod, /) -> None:
        """A pod is gone by force: its containers are ended."""
        sandbox = self.machine.sandboxes.pop(whole.metadata.uid, None)
        if sandbox:
            self._free(whole.metadata.uid)

    # --- what it does ----------------------------------------------------------------------------------
    def _taken_on(self, pod: Pod, whole: WholePod) -> Sandbox:
        now = self.world.loop.now
        inits = [c for c in pod.spec.init_containers or () if not c.is_sidecar]
        sandbox = Sandbox(pod=pod, whole=whole, starts=now + STARTS_WITHIN * (1 + len(inits)))
        if pod.status.phase == "Running":
            sandbox.starts, sandbox.reported = now, "Running"
        if is_terminating(pod):
            sandbox.ends = now
        elif container_needs(pod):
            sandbox.refused = self._allocate(pod)
        if self.is_runtime_away:
            sandbox.not_started, sandbox.ends, sandbox.phase = True, now, "Failed"
        seconds = None if sandbox.not_started else runs_for(whole)
        if seconds is not None:
            sandbox.ends = sandbox.starts + seconds
        self._expect(sandbox)
        return sandbox

    def _allocate(self, pod: Pod) -> str | None:
        """Give it what is written on it; why not."""
        if self.agent is None or not self.agent.life.alive:
            return REFUSED
        try:
            given = assignment_of(pod) or {}
        except AssignmentError:
            given = {}
        uid = pod.metadata.uid
        for need in container_needs(pod):
            devices = self._chosen(need.count) if self._chooses else frozenset(given.get(need.name, ()))
            if self._chooses and need.resource == names.SHARED_RESOURCE:
                continue  # a resource that the node does not have is none of its business
            others = {d for (holder, _), ids in self.machine.checkpoint.items() if holder != uid for d in ids}
            suitable = {d.uuid for d in self.agent.devices if _is_of(d, need.resource)}
            if len(devices) != need.count or not (self._chooses or devices <= suitable):
                self._free(uid)
                return REFUSED
            if need.resource == names.SHARED_RESOURCE:
                devices = self._slots(pod, devices, others)
            if len(devices) != need.count or excluded(devices, others):
                self._free(uid)
                return REFUSED
            self.machine.checkpoint[uid, need.name] = devices
            self._changed(devices)
        return None

    @property
    def _chooses(self) -> bool:
        """Whether another device plugin gives out its GPUs: then it chooses them itself."""
        return self.agent is not None and any(device.numbered for device in self.agent.devices)

    def _chosen(self, count: int) -> frozenset[str]:
        """So many of its GPUs that nobody has: not those of the numbers that the extender has chosen."""
        free = (
            [real_gpu(d) for d in self.agent.devices if real_gpu(d) not in self._held] if self.agent else []
        )
        return frozenset(free[len(free) - count :])

    def _slots(self, pod: Pod, uuids: frozenset[str], others: set[str]) -> frozenset[str]:
        """A free slot of each of these GPUs: where there is one, that which an init container has left."""
        inits = {c.name for c in pod.spec.init_containers or () if not c.is_sidecar}
        own = {name: ids for (uid, name), ids in self.machine.checkpoint.items() if uid == pod.metadata.uid}
        kept = {slot for name, ids in own.items() if name not in inits for slot in ids}
        left = {slot for name, ids in own.items() if name in inits for slot in ids} - kept
        found: set[str] = set()
        for device in self.agent.devices if self.agent else ():
            if device.uuid in uuids and device.share:
                free = [s for s in slots_of(device.uuid, device.share.slots) if s not in others | kept]
                found.update(sorted(free, key=lambda slot: slot not in left)[:1])
        return frozenset(found)

    def _free(self, uid: str) -> None:
        freed = [key for key in self.machine.checkpoint if key[0] == uid]
        self._changed(frozenset[str]().union(*map(self.machine.checkpoint.pop, freed)))

    def _changed(self, ids: frozenset[str]) -> None:
        """These have come into its checkpoint, or left it: a GPU is advertised whole or in slots."""
        self.world.allocated(self.node)
        if self.life.alive and any(map(is_slot, ids)):
            self.after(0.0, self.advertise)

    def _terminate(self, sandbox: Sandbox) -> None:
        now = self.world.loop.now
        if sandbox.killed_at is None:
            sandbox.killed_at = now
        grace = sandbox.pod.metadata.deletion_grace_period_seconds
        runs = sandbox.state(now) == "Running"
        wanted = min(ENDS_WITHIN if grace is None else grace, ends_within(sandbox.whole)) if runs else 0.0
        ends = sandbox.killed_at + wanted
        if sandbox.ends is None or ends < sandbox.ends:
            sandbox.ends = max(now, ends)
            sandbox.phase = "Failed"
            self._expect(sandbox)

    def _expect(self, sandbox: Sandbox) -> None:
        """Report it when something happens to it by time."""
        now = self.world.loop.now
        for at in (sandbox.starts, sandbox.ends):
            if at is not None and at >= now:
                self.after(at - now, lambda: self._report(sandbox))

    def _report(self, sandbox: Sandbox) -> None:
        uid = sandbox.pod.metadata.uid
        if self.machine.sandboxes.get(uid) is not sandbox:
            return
        state = sandbox.state(self.world.loop.now)
        try:
            if state != sandbox.reported and (state != "Pending" or not is_terminating(sandbox.pod)):
                self._write(sandbox, state)
            if sandbox.has_ended and is_terminating(sandbox.pod):
                self._delete(sandbox)
        except NotFound:
            self.remove(sandbox.whole)
        except ApiError:
            self.after(AGAIN_AFTER, lambda: self._report(sandbox))

    def _write(self, sandbox: Sandbox, state: str) -> None:
        meta = sandbox.pod.metadata
        if state in ("Succeeded", "Failed"):
            self._free(meta.uid)
        body = {"metadata": {"uid": meta.uid}, "status": self._status(sandbox, state)}
        self.kube.patch(PODS, meta.name, body, namespace=meta.namespace, subresource="status")
        sandbox.reported = state

    def _delete(self, sandbox: Sandbox) -> None:
        """All is over: the object may go, unless somebody's finalizer keeps it."""
        meta = sandbox.pod.metadata
        if meta.deletion_grace_period_seconds != 0:
            self.kube.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid, grace_seconds=0)

    def _status(self, sandbox: Sandbox, state: str) -> Json:
        at = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        begun = {} if sandbox.whole.status.get("startTime") else {"startTime": at}
        if sandbox.refused:
            # Captured from kubelet 1.37.1: of a pod that it has rejected it says nothing else.
            nothing = {"conditions": None, "containerStatuses": None}
            return {"phase": state, "reason": sandbox.refused, **nothing, **begun}
        over = state in ("Succeeded", "Failed")
        inside: Json = {"terminated": {"exitCode": int(state == "Failed"), "finishedAt": at}}
        if sandbox.not_started:
            inside["terminated"] |= NOT_STARTED
        if not over:
            inside = {"running": {"startedAt": at}} if state == "Running" else {"waiting": {}}
        containers = sandbox.whole.spec.get("containers") or []
        status: Json = {
            "phase": state,
            "containerStatuses": [
                {"name": c["name"], "ready": state == "Running", "state": inside, **self._given(sandbox, c)}
                for c in containers
            ],
            "conditions": [*self._conditions(sandbox), _condition("Ready", met=state == "Running")],
        }
        return {**status, **begun}

    def _given(self, sandbox: Sandbox, container: Json) -> Json:
        """The GPUs that it has chosen for a container."""
        ids = self.machine.checkpoint.get((sandbox.pod.metadata.uid, container["name"]), ())
        tells = self._chooses and self.tells_devices
        resources = [{"resourceID": one} for one in sorted(ids)] if tells else []
        if not resources:
            return {}
        return {"allocatedResourcesStatus": [{"name": names.GPU_RESOURCE, "resources": resources}]}

    def _conditions(self, sandbox: Sandbox) -> list[Json]:
        known = sandbox.whole.status.get("conditions") or []
        ours = ("Ready", "PodScheduled")
        return [*(c for c in known if c["type"] not in ours), _condition("PodScheduled", met=True)]


def real_gpu(device: Device) -> str:
    """UUID of a GPU of a machine whose kubelet chooses, by a number that it stands for."""
    return f"GPU-{device.uuid}"


def _is_of(device: Device, resource: str) -> bool:
    """Whether a device can be had under the name of a resource."""
    if resource == names.SHARED_RESOURCE:
        return device.share is not None
    return resource_of(device) == resource


def _condition(kind: str, *, met: bool) -> Json:
    return {"type": kind, "status": str(met)}


def runs_for(whole: WholePod) -> float | None:
    """Seconds after which its work is done, as its first container's arguments say; None for a server."""
    args = (whole.spec.get("containers") or [{}])[0].get("args") or []
    return float(args[0]) if args and whole.spec.get("restartPolicy") == "Never" else None


def ends_within(whole: WholePod) -> float:
    """Seconds that its containers take to end when they are asked to."""
    env = (whole.spec.get("containers") or [{}])[0].get("env") or []
    return next((float(one["value"]) for one in env if one["name"] == "ENDS_WITHIN"), ENDS_WITHIN)
