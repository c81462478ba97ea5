"""The verb ``filter``: which of the offered nodes can give the pod its devices."""

from cluster.decide.predicates import obstacle
from cluster.decide.wish import wish_of
from cluster.objects.quantity import QuantityError
from extender.state import ClusterState, Rejection
from extender.wire import WHOLE_NODES, Arguments, FilterResult


class Filter:
    """Answers kube-scheduler's question; the decision is ``predicates.obstacle``."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def __call__(self, arguments: Arguments) -> FilterResult:
        """Sort the nodes into those that fit and those that do not, with the reason.

        Every rejection is "unresolvable" to the scheduler: its own filters have counted enough free devices
        on the nodes that it offers, so evicting pods there would not help; were they called merely failed,
        its preemption would look for victims, find that none is needed, and fail with an error.
        """
        if arguments.has_whole_nodes:
            return FilterResult(error=WHOLE_NODES)
        try:
            wish = wish_of(arguments.pod)
        except QuantityError as error:
            return FilterResult(error=str(error))
        self._state.remember(arguments.pod)
        fitting: list[str] = []
        rejected: dict[str, str] = {}
        for view, agent in self._state.look(arguments.node_names or ()):
            reason = obstacle(wish, view, agent)
            if reason is None:
                fitting.append(view.name)
            else:
                rejected[view.name] = reason
        self._state.note(Rejection(arguments.pod.metadata.uid, wish, frozenset(rejected)))
        return FilterResult(node_names=fitting, failed_and_unresolvable_nodes=rejected)
