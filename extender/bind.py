"""The verb ``bind``: choose the devices and write node and devices in one Binding.

A pod's first decision stands until it is settled: the scheduler repeats a bind that took too long, maybe for
another node, while the first may still be on its way. What was decided is therefore counted in the ledger
*before* it is posted, and taken back only when it is certain that it did not happen. The Binding carries the
uid and the resourceVersion that filter saw: if anybody else has written the pod since (another binder, a
hold, the user), it is refused and nothing has happened. It is posted only within 2 s of its decision.

============================  ==========================================================================
what the API server says      what follows
============================  ==========================================================================
201                           success; the ledger goes on assuming it until the pod's event comes
409                           read the pod again: bound as we decided is success; otherwise taken back
any other 4xx                 refused, nothing happened: taken back
5xx, no answer, unreadable    unknown: kept; a repeat posts the same decision, ``settle`` reads it again
============================  ==========================================================================
"""

from typing import Any, Final

from cluster import names
from cluster.decide.ledger import Assumption
from cluster.decide.placement import NoPlaceError, choose
from cluster.decide.predicates import AGENT, obstacle
from cluster.decide.wish import wish_of
from cluster.kube.errors import ApiError, ClientError, Conflict, NotFound
from cluster.kube.port import Kube
from cluster.kube.resources import PODS
from cluster.objects.assignment import devices_of, encode_assignment
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError
from cluster.runtime.clock import Clock
from extender.flights import Flights
from extender.state import ClusterState
from extender.wire import BindingArguments, BindingResult

DEADLINE: Final = 2.0
"""Seconds after its decision within which a Binding may be posted."""

BOUND: Final = BindingResult()


class BindError(Exception):
    """The pod is not bound; the text says why, and is the same each time for the same reason."""


class Bind:
    """Decides and posts Bindings."""

    def __init__(self, kube: Kube, state: ClusterState, clock: Clock, flights: Flights) -> None:
        self._kube = kube
        self._state = state
        self._clock = clock
        self._flights = flights

    def __call__(self, arguments: BindingArguments) -> BindingResult:
        """Bind the pod to the node, with devices that fit it; safe to repeat."""
        with self._flights.alone(arguments.pod_uid):
            try:
                self._bind(arguments)
            except BindError as error:
                return BindingResult(error=str(error))
        return BOUND

    def _bind(self, arguments: BindingArguments) -> None:
        with self._state.locked() as ledger:
            earlier = ledger.assumed.get(arguments.pod_uid)
            holds = ledger.claim(arguments.pod_uid)
        if holds:
            if self._is_bound(arguments):
                return
            if earlier is None or earlier.node != arguments.node:
                raise BindError(f"An earlier bind of the pod to node {holds.node} is not settled yet.")
            self._post(self._renewed(earlier), self._clock.monotonic())
            return
        pod = self._state.remembered(arguments.pod_uid) or self._read(arguments)
        decided_at = self._clock.monotonic()
        self._post(self._decide(pod, arguments.node), decided_at)

    def _decide(self, pod: Pod, node: str) -> Assumption:
        """Check once more, choose, and count the choice in the ledger, in one step."""
        try:
            wish = wish_of(pod)
        except QuantityError as error:
            raise BindError(str(error)) from error
        with self._state.locked() as ledger:
            ((view, agent),) = self._state.look((node,))
            reason = obstacle(wish, view, agent)
            if reason:
                raise BindError(f"The pod no longer fits on node {node}: {reason}.")
            try:
                assignment = choose(wish, view)
            except NoPlaceError as error:
                raise BindError(f"The pod no longer fits on node {node}.") from error
            ledger.assume(pod, node, assignment)
        return Assumption(pod=pod, node=node, assignment=assignment)

    def _renewed(self, decision: Assumption) -> Assumption:
        """The same decision, counted from now on: ``settle`` gives it its full time again.

        Raises:
            BindError: it would not be made any more (law L6). It stays as it is: the first may yet arrive.
        """
        again = Assumption(pod=decision.pod, node=decision.node, assignment=decision.assignment)
        with self._state.locked() as ledger:
            ((view, agent),) = self._state.look((decision.node,))
            reason = None if agent == "alive" else AGENT[agent]
            healthy = {device.uuid for device in view.devices if device.is_healthy}
            if decision.assignment and (reason or not devices_of(decision.assignment) <= healthy):
                reason = reason or "a GPU that was chosen is not healthy any more"
                raise BindError(f"The pod no longer fits on node {decision.node}: {reason}.")
            ledger.forget_assumed(again.pod.metadata.uid)
            ledger.assume(again.pod, again.node, again.assignment)
        return again

    def _post(self, decision: Assumption, decided_at: float) -> None:
        meta = decision.pod.metadata
        if self._clock.monotonic() - decided_at > DEADLINE:
            self._take_back(meta.uid)
            raise BindError("The decision was too old to be written; it is made anew with the next attempt.")
        try:
            self._kube.create_subresource(
                PODS, "binding", binding(decision), name=meta.name, namespace=meta.namespace
            )
        except Conflict as error:
            self._after_conflict(decision, error)
        except ClientError as error:
            self._take_back(meta.uid)
            raise BindError(f"The API server refused the Binding ({error.code} {error.reason}).") from error
        except ApiError as error:
            raise BindError(
                "The API server has not said whether the pod is bound; the same bind is tried again."
            ) from error

    def _after_conflict(self, decision: Assumption, conflict: Conflict) -> None:
        meta = decision.pod.metadata
        arguments = BindingArguments(
            pod_name=meta.name, pod_namespace=meta.namespace, pod_uid=meta.uid, node=decision.node
        )
        if self._is_bound(arguments):
            return
        self._take_back(meta.uid)
        raise BindError(
            "The pod has changed since it was filtered; it is decided anew with the next attempt."
        ) from conflict

    def _is_bound(self, arguments: BindingArguments) -> bool:
        """Read the pod; whether it is bound to the node that is asked for.

        Raises:
            BindError: it is gone, is bound elsewhere, or cannot be read.
        """
        pod = self._read(arguments)
        if not pod.spec.node_name:
            return False
        with self._state.locked() as ledger:
            ledger.apply_pod(pod)
        if pod.spec.node_name != arguments.node:
            raise BindError(f"The pod is bound to node {pod.spec.node_name} already.")
        return True

    def _read(self, arguments: BindingArguments) -> Pod:
        try:
            pod = self._kube.get(PODS, arguments.pod_name, namespace=arguments.pod_namespace)
        except NotFound as error:
            self._take_back(arguments.pod_uid)
            raise BindError("The pod is gone.") from error
        except ApiError as error:
            raise BindError("The pod cannot be read from the API server now.") from error
        if pod.metadata.uid != arguments.pod_uid:
            self._take_back(arguments.pod_uid)
            raise BindError("The pod is gone; another one has its name.")
        return pod

    def _take_back(self, uid: str) -> None:
        with self._state.locked() as ledger:
            ledger.forget_assumed(uid)
            self._state.drop_remembered(uid)


def binding(decision: Assumption) -> dict[str, Any]:
    """The body of ``POST pods/<name>/binding``: node, devices and preconditions in one write."""
    meta = decision.pod.metadata
    metadata: dict[str, Any] = {
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }
    if decision.assignment:
        metadata["annotations"] = {names.ASSIGNED: encode_assignment(decision.assignment)}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": decision.node},
    }
