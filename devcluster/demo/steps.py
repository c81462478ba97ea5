"""The steps of the chapters: each waits for its outcome, or fails with what was seen instead."""

from collections.abc import Callable
from typing import TypeVar

from cluster import names
from cluster.kube.resources import PODS
from cluster.objects.inventory import Device, InventoryError, inventory_of
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod, asks_for_gpus
from devcluster import probe
from devcluster.demo import pod_status
from devcluster.demo.context import Context, Narrator
from devcluster.demo.reporter import Reporter, StepError

V = TypeVar("V")


class Steps:
    """What people do in the story, and what they see."""

    def __init__(self, context: Context, reporter: Reporter, narrator: Narrator) -> None:
        self._context = context
        self._reporter = reporter
        self._narrator = narrator
        self._devices: dict[str, Device] = {}

    # --- nodes ---------------------------------------------------------------------------------------
    def inventory(self, node: str) -> None:
        """Wait until a node publishes its GPUs and the kubelet advertises them, and report them."""
        step = f"{node} publishes its GPUs and the kubelet advertises them"
        found = self._await_node(node, step)
        for device in found:
            self._devices[device.uuid] = device
            self._narrator.knows(device)
        models = sorted({d.model for d in found})
        counts = ", ".join(f"{sum(d.model == m for d in found)} x {m}" for m in models)
        self._reporter.say(node, f"has {len(found)} GPUs: {counts}")

    @property
    def kubelet_chooses(self) -> bool:
        """Whether any node is another plugin's, whose GPUs we only count."""
        return any(device.numbered for device in self._devices.values())

    # --- pods ----------------------------------------------------------------------------------------
    def create(self, name: str, *, user: str, model: str | None, memory: int | None = None) -> None:
        """Create a pod that asks for one GPU, or for so many MiB of one, as this user."""
        body = probe.pod(name, [probe.container("main", gpus=1, memory=memory)], model=model)
        of_model = f" of model {model}" if model else ""
        asked = f"{memory} MiB of a GPU" if memory else "one GPU"
        self._reporter.say(name, f"is created by {user} and asks for {asked}{of_model}")
        self._narrator.begins(name)
        self._context.people[user].create(PODS, body, namespace=self._context.namespace)

    def served(self, name: str, *, model: str | None, by: frozenset[str] | None = None) -> frozenset[str]:
        """Wait until a pod has run, and check that its container sees the GPU that was chosen, and no other.

        Args:
            name: of the pod.
            model: that the GPU must have; None for any.
            by: the devices that the pod must get; None for any.
        """
        given = self.wait(name, pod_status.devices, f"{name} is bound with its devices")
        wrong = [u for u in given if model is not None and self._narrator.model(u) != model]
        if len(given) != 1 or wrong or (by is not None and given != by):
            wanted = f"one GPU of model {model or 'any'}" if by is None else self._narrator.devices(by)
            raise StepError(
                f"{name} is bound with the right GPU", expected=wanted, seen=self._narrator.devices(given)
            )
        self.wait(name, lambda p: pod_status.has_started(p) or None, f"{name} runs")
        self._check_inside(name, given)
        return given

    def shares(self, name: str, *, model: str, memory: int) -> frozenset[str]:
        """Wait until a pod with a share has run, and check that its container is told how much it may use."""
        given = self.served(name, model=model)
        sight = probe.read_sight(self._context.kubectl, namespace=self._context.namespace, name=name)
        told = sight.env.get(names.GPU_MEMORY_VARIABLE) if sight else None
        self.are_equal(f"the container of {name} is told its part", str(memory), told)
        self._reporter.say(name, f"is told inside that {memory} MiB of it are its own")
        return given

    def are_equal(self, step: str, expected: object, seen: object) -> None:
        """Check that something is as it should be."""
        if expected != seen:
            raise StepError(step, expected=str(expected), seen=str(seen))

    def delete(self, name: str, *, user: str) -> None:
        """Delete a pod, as its user."""
        self._reporter.say(name, f"is deleted by {user}")
        self._context.people[user].delete(PODS, name, namespace=self._context.namespace)

    def waits(self, name: str) -> None:
        """Wait until the scheduler says why it cannot place the pod, and report that."""
        because = self.wait(name, pod_status.waiting_because, f"{name} waits and says why")
        self._reporter.say(name, f"waits: {because}")

    def checkpoint(self, name: str, *, user: str, others: tuple[str, ...]) -> None:
        """Let the pod's owner record that its work is safe up to now; the work of the others is not.

        It waits until the others have done some work: instants have whole seconds, and a pod that began in
        this second would lose as little.
        """
        for other in others:
            self.wait(
                other,
                lambda pod: pod_status.worked_before(pod, self._reporter.now) or None,
                f"{other} has worked for a second",
            )
        now = self._reporter.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        annotations = {names.CHECKPOINT_AT: now}
        self._context.people[user].patch(
            PODS, name, {"metadata": {"annotations": annotations}}, namespace=self._context.namespace
        )
        self._reporter.say(name, f"has written a checkpoint at {now}: an eviction would lose little")

    def comes_back(self, name: str, was: Pod) -> None:
        """Wait until an evicted pod exists again under its name and runs; check that it has no GPU."""
        uid = was.metadata.uid

        def back(pod: Pod) -> Pod | None:
            is_it = pod_status.came_back_from(pod) == uid and pod_status.has_started(pod)
            return pod if is_it else None

        pod = self.wait(name, back, f"{name} comes back and runs")
        if asks_for_gpus(pod):
            raise StepError(
                f"{name} comes back without a GPU", expected="no GPU in it", seen="it asks for one"
            )
        sight = probe.read_sight(self._context.kubectl, namespace=self._context.namespace, name=name)
        if sight is None or sight.gpu_minors or sight.env.get(names.VISIBLE_DEVICES_VARIABLE) != "none":
            raise StepError(
                f"the container of {name} sees no GPU", expected="none", seen=str(sight or "no output")
            )
        self._reporter.say(name, "runs on, and sees no GPU inside")

    def untouched(self, pods: list[Pod]) -> None:
        """Check that these pods are the same as they were, and run."""
        for was in pods:
            name = was.metadata.name
            now = self._context.pods.get(name)
            same = now is not None and now.metadata.uid == was.metadata.uid and pod_status.is_running(now)
            if not same:
                raise StepError(
                    f"{name} is not touched", expected="it runs on", seen=pod_status.describe(now)
                )
        self._reporter.say("bob", f"keeps {', '.join(sorted(p.metadata.name for p in pods))}: untouched")

    def pod(self, name: str) -> Pod:
        """The pod as it is now; waits until there is one."""
        return self.wait(name, lambda p: p, f"there is a pod {name}")

    # --- waiting -------------------------------------------------------------------------------------
    def wait(self, name: str, condition: Callable[[Pod], V | None], step: str) -> V:
        """Wait until the condition returns something for this pod, and return that; else StepError."""
        patience = self._context.patience
        found = self._context.pods.await_that(name, condition, seconds=patience)
        if found is None:
            seen = pod_status.describe(self._context.pods.get(name))
            raise StepError(step, expected=f"this within {patience:.0f} s", seen=seen)
        return found

    def _check_inside(self, name: str, given: frozenset[str]) -> None:
        sight = probe.read_sight(self._context.kubectl, namespace=self._context.namespace, name=name)
        if any(self._devices[uuid].numbered for uuid in given):
            self._check_count_inside(name, len(given), sight)
            return
        expected = (tuple(sorted(given)), tuple(sorted(self._devices[u].index for u in given)))
        if sight is None or (sight.uuids, sight.gpu_minors) != expected:
            raise StepError(
                f"the container of {name} sees the GPU that was chosen, and no other",
                expected=f"{', '.join(expected[0])} at /dev/nvidia{expected[1][0]}",
                seen="no output of the container" if sight is None else f"{sight.uuids}, {sight.gpu_minors}",
            )
        self._reporter.say(name, f"sees inside: {', '.join(sight.uuids)} at /dev/nvidia{sight.gpu_minors[0]}")

    def _check_count_inside(self, name: str, count: int, sight: probe.Sight | None) -> None:
        """The kubelet has chosen: as many GPUs are seen as were given, whichever they are."""
        if sight is None or not len(set(sight.uuids)) == len(set(sight.gpu_minors)) == count:
            raise StepError(
                f"the container of {name} sees as many GPUs as it was given",
                expected=str(count),
                seen="no output of the container" if sight is None else f"{sight.uuids}, {sight.gpu_minors}",
            )
        self._reporter.say(name, f"sees inside: {', '.join(sight.uuids)}, which the kubelet has chosen")

    def _await_node(self, name: str, step: str) -> tuple[Device, ...]:
        patience = self._context.patience
        found = self._context.nodes.await_that(name, _advertised, seconds=patience)
        if found is None:
            node = self._context.nodes.get(name)
            seen = f"allocatable {node.status.allocatable}" if node else "there is no such node"
            raise StepError(step, expected=f"this within {patience:.0f} s", seen=seen)
        return found


def _advertised(node: Node) -> tuple[Device, ...] | None:
    try:
        found = inventory_of(node)
    except InventoryError:
        return None
    allocatable = (node.status.allocatable or {}).get(names.GPU_RESOURCE)
    return found if found and str(allocatable) == str(len(found)) else None
