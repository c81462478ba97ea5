"""What is left when all our components have ended is taken off pods and nodes, or deleted."""

from booking.controller.uninstall import marks
from booking.controller.uninstall.api import everything, some, without
from booking.controller.uninstall.kinds import CAPACITIES
from booking.controller.uninstall.stopping import Report
from booking.wording import counted
from cluster import names
from cluster.kube.errors import Conflict, NotFound
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import LEASES, NODES, PODS, SECRETS, TAINT_RULES, Resource, T
from cluster.objects.pods import Pod, asks_for_gpus, is_terminal


class Cleanup:
    """The steps that remove our objects from the cluster, and our traces from others' objects."""

    def __init__(self, kube: Kube, *, namespace: str, keeps_bookings: bool, report: Report) -> None:
        """Args: namespace: of the release; say: prints a line for the person who uninstalls."""
        self._kube = kube
        self._namespace = namespace
        self._keeps_bookings = keeps_bookings
        self._report = report

    def pods(self) -> str | None:
        """Remove our marks from all pods; returns a message if some changed meanwhile.

        Raises:
            ApiError: the API server could not be reached.
        """
        pods, _ = everything(self._kube, PODS)
        changes = [(pod, change) for pod in pods if (change := marks.off_a_pod(pod))]
        changed = [pod.key for pod, change in changes if not self._patched(PODS, pod, change)]
        if len(changes) > len(changed):
            done = counted(len(changes) - len(changed), "pod")
            self._report(f"Annotations, gates and finalizers of ours are removed from {done}.")
        return f"Pods changed at this moment: {some(changed)}." if changed else None

    def nodes(self) -> str | None:
        """Remove our annotations and labels from all nodes.

        Raises:
            ApiError: as above.
        """
        nodes, _ = everything(self._kube, NODES)
        changes = [(node, change) for node in nodes if (change := marks.off_a_node(node.metadata))]
        for node, change in changes:
            self._patched(NODES, node, change)
        if changes:
            self._report(f"Our annotations and labels are removed from {counted(len(changes), 'node')}.")
        return None

    def objects(self) -> str | None:
        """Delete Leases, keys and other objects of ours that the chart does not know.

        Raises:
            ApiError: as above.
        """
        leases, _ = everything(self._kube, LEASES, Selection(namespace=self._namespace))
        left = [lease.metadata.name for lease in leases]
        ours = [name for name in left if marks.is_left(name, keeps_bookings=self._keeps_bookings)]
        gone = [name for name in ours if without(self._kube, LEASES, name, self._namespace)]
        if gone:
            self._report(f"Deleted {counted(len(gone), 'Lease')}.")
        if rules := self._rules():
            self._report(
                f"GPUs that were kept for claims are free again: {counted(rules, 'DeviceTaintRule')}."
            )
        without(self._kube, SECRETS, names.WEBHOOK_KEYS, self._namespace)
        without(self._kube, CAPACITIES, names.REQUEUE_TRIGGER, self._namespace)
        return None

    def _rules(self) -> int:
        """Delete the rules of holds, and of devices that were given twice; older API servers have none."""
        try:
            rules = [
                rule
                for label in (names.HOLD_OF, names.CONFLICT_TAINT)
                for rule in everything(self._kube, TAINT_RULES, Selection(label_selector=label))[0]
            ]
        except NotFound:
            return 0
        return sum(without(self._kube, TAINT_RULES, one.metadata.name) for one in rules)

    def report_remaining(self, scheduler: str) -> None:
        """Report what stays, and what no component will do any more.

        Raises:
            ApiError: as above.
        """
        pods, _ = everything(self._kube, PODS)
        with_gpus = [pod for pod in pods if asks_for_gpus(pod) and not is_terminal(pod)]
        running = [pod for pod in with_gpus if pod.spec.node_name]
        waiting = [pod.key for pod in with_gpus if _waits_for(pod, scheduler)]
        if running:
            self._report(f"Pods that run keep their GPUs until they end: {len(running)}.")
        if waiting:
            self._report(
                f"Some pods wait for scheduler {scheduler}, which is gone: {some(waiting)}."
                " Delete them; what a controller makes again, the cluster's own scheduler places."
            )
        if self._keeps_bookings:
            self._report("The bookings are kept: install again, and everybody finds theirs.")
        self._report("Nothing else of GPU Booking is left outside its release.")

    def _patched(self, resource: Resource[T], obj: T, change: marks.Json) -> bool:
        """Whether the object was changed, or is gone."""
        meta = obj.metadata
        try:
            self._kube.patch(resource, meta.name, change, namespace=meta.namespace or None)
        except NotFound:
            return True
        except Conflict:
            return False
        return True


def _waits_for(pod: Pod, scheduler: str) -> bool:
    return not pod.spec.node_name and pod.spec.scheduler_name == scheduler
