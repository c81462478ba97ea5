"""The story: pods ask for GPUs, get exactly the ones that the extender chose, wait, and are served."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from cluster import names
from cluster.kube.port import Kube
from cluster.kube.resources import PODS
from cluster.objects.inventory import Device, InventoryError, inventory_of
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from devcluster import probe
from devcluster.demo import milestones
from devcluster.demo.teller import StepError, Teller
from devcluster.demo.watcher import Chronicle, Latest

NAMESPACE = "research"
A100 = "NVIDIA-A100-SXM4-80GB"
A6000 = "NVIDIA-RTX-A6000"
_PATIENCE = 60.0
_SOON_OVER = 15

V = TypeVar("V")


class Kubectl(Protocol):
    """The administrator's kubectl."""

    def __call__(self, *arguments: str) -> str:
        """Run it; what it printed."""
        ...


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What the story plays on."""

    kube: Kube
    kubectl: Kubectl
    pods: Chronicle
    nodes: Latest[Node]
    node_names: tuple[str, ...]


class Narrator:
    """Tells what happens to pods at the moment at which it does."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._models: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self.moments: dict[tuple[str, str], float] = {}
        """(pod, milestone) -> seconds since the story began."""

    def knows(self, device: Device) -> None:
        """A device that has been published."""
        self._models[device.uuid] = device.model

    def begins(self, name: str) -> None:
        """The pod is about to be created: from now on its time counts."""
        self._since[name] = self._teller.seconds

    def model(self, uuid: str) -> str:
        """The model of a device."""
        return self._models.get(uuid, "unknown")

    def devices(self, uuids: frozenset[str]) -> str:
        """Devices by name, with their models."""
        return ", ".join(f"{u} ({self.model(u)})" for u in sorted(uuids)) or "no device"

    def tell(self, milestone: str, pod: Pod) -> None:
        """One line for one thing that happened."""
        name, now = pod.metadata.name, self._teller.seconds
        self.moments[name, milestone] = now
        took = f"after {now - self._since.get(name, now):.2f} s"
        lines = {
            "scheduled": f"is scheduled to {pod.spec.node_name} {took}",
            "bound": f"is bound with {self.devices(milestones.devices(pod))}",
            "running": f"runs {took}",
            "ended": f"has ended {took}",
        }
        self._teller.say(name, lines[milestone])


class Story:
    """Plays the chapters in their order; a step that does not happen raises StepError."""

    def __init__(self, stage: Stage, teller: Teller, narrator: Narrator) -> None:
        self._stage = stage
        self._teller = teller
        self._narrator = narrator
        self._devices: dict[str, Device] = {}

    def play(self) -> None:
        """Everything, from the nodes' GPUs to the fifth pod's."""
        self._chapter_inventory()
        self._chapter_five_for_four()
        self._chapter_the_rest()
        self._chapter_the_fifth()

    # --- chapters ------------------------------------------------------------------------------------
    def _chapter_inventory(self) -> None:
        self._teller.chapter("The node agents publish the GPUs that they see through NVML.")
        for name in self._stage.node_names:
            found = self._await_node(name, f"{name} publishes its GPUs and the kubelet advertises them")
            for device in found:
                self._devices[device.uuid] = device
                self._narrator.knows(device)
            models = sorted({d.model for d in found})
            counts = ", ".join(f"{sum(d.model == m for d in found)} x {m}" for m in models)
            self._teller.say(name, f"has {len(found)} GPUs: {counts}")

    def _chapter_five_for_four(self) -> None:
        self._teller.chapter("Bob creates five pods that want an A100; the cluster has four.")
        names = [f"bob-a100-{n}" for n in range(1, 6)]
        for name in names[:4]:
            self._create(name, model=A100, seconds=_SOON_OVER if name == names[0] else None)
        for name in names[:4]:  # whoever is served last waits: it shall be the fifth
            self._await(name, milestones.node_of, f"{name} is scheduled")
        self._create(names[4], model=A100)
        for name in names[:4]:
            self._check(name, model=A100)
        because = self._await(names[4], milestones.waiting_because, "the fifth pod waits and says why")
        self._teller.say(names[4], f"waits: {because}")

    def _chapter_the_rest(self) -> None:
        self._teller.chapter("Alice takes an A6000, and a pod that takes any GPU finds one.")
        self._create("alice-a6000", model=A6000)
        self._check("alice-a6000", model=A6000)
        self._create("alice-any", model=None)
        self._check("alice-any", model=None)

    def _chapter_the_fifth(self) -> None:
        self._teller.chapter("One of the four ends; the fifth gets its GPU.")
        self._teller.say("bob-a100-1", f"has {_SOON_OVER} s of work and ends by itself")
        first = self._await("bob-a100-1", lambda p: p if milestones.has_ended(p) else None, "bob-a100-1 ends")
        freed = milestones.devices(first)
        self._check("bob-a100-5", model=A100)
        given = self._await("bob-a100-5", milestones.devices, "bob-a100-5 is bound")
        if given != freed:
            raise StepError(
                "the fifth pod gets the freed GPU",
                expected=self._narrator.devices(freed),
                seen=self._narrator.devices(given),
            )
        moments = self._narrator.moments
        waited = moments["bob-a100-5", "bound"] - moments["bob-a100-1", "ended"]
        self._teller.say("bob-a100-5", f"got the GPU {waited:.2f} s after the end of bob-a100-1 was seen")

    # --- steps ---------------------------------------------------------------------------------------
    def _create(self, name: str, *, model: str | None, seconds: int | None = None) -> None:
        body = probe.pod(name, [probe.container("main", gpus=1, seconds=seconds)], model=model)
        self._teller.say(name, f"is created and asks for one GPU{f' of model {model}' if model else ''}")
        self._narrator.begins(name)
        self._stage.kube.create(PODS, body, namespace=NAMESPACE)

    def _check(self, name: str, *, model: str | None) -> None:
        """Wait until the pod runs; its container sees the one GPU that was chosen, and no other."""
        self._await(name, milestones.node_of, f"{name} is scheduled")
        given = self._await(name, milestones.devices, f"{name} is bound with its devices")
        wrong = [u for u in given if model is not None and self._narrator.model(u) != model]
        if len(given) != 1 or wrong:
            raise StepError(
                f"{name} is bound with one GPU of its model",
                expected=f"one GPU of model {model or 'any'}",
                seen=self._narrator.devices(given),
            )
        self._await(name, lambda p: milestones.has_started(p) or None, f"{name} runs")
        self._look_inside(name, given)

    def _look_inside(self, name: str, given: frozenset[str]) -> None:
        sight = probe.look(self._stage.kubectl, namespace=NAMESPACE, name=name)
        expected = (tuple(sorted(given)), tuple(sorted(self._devices[u].index for u in given)))
        if sight is None or (sight.uuids, sight.gpu_minors) != expected:
            raise StepError(
                f"the container of {name} sees the GPU that was chosen, and no other",
                expected=f"{', '.join(expected[0])} at /dev/nvidia{expected[1][0]}",
                seen="no output of the container" if sight is None else f"{sight.uuids}, {sight.gpu_minors}",
            )
        self._teller.say(name, f"sees inside: {', '.join(sight.uuids)} at /dev/nvidia{sight.gpu_minors[0]}")

    # --- waiting -------------------------------------------------------------------------------------
    def _await(self, name: str, condition: Callable[[Pod], V | None], step: str) -> V:
        found = self._stage.pods.await_that(name, condition, seconds=_PATIENCE)
        if found is None:
            seen = milestones.describe(self._stage.pods.get(name))
            raise StepError(step, expected=f"this within {_PATIENCE:.0f} s", seen=seen)
        return found

    def _await_node(self, name: str, step: str) -> tuple[Device, ...]:
        found = self._stage.nodes.await_that(name, _advertised, seconds=_PATIENCE)
        if found is None:
            node = self._stage.nodes.get(name)
            seen = f"allocatable {node.status.allocatable}" if node else "there is no such node"
            raise StepError(step, expected=f"this within {_PATIENCE:.0f} s", seen=seen)
        return found


def _advertised(node: Node) -> tuple[Device, ...] | None:
    try:
        found = inventory_of(node)
    except InventoryError:
        return None
    allocatable = (node.status.allocatable or {}).get(names.GPU_RESOURCE)
    return found if found and str(allocatable) == str(len(found)) else None
