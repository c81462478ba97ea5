"""The verb ``prioritize``: which of the fitting nodes is best. Not asked when only one fits."""

from cluster.decide.wish import wish_of
from extender.policies import Policy
from extender.state import ClusterState
from extender.wire import Arguments, HostPriority


class Prioritize:
    """Ranks nodes by one policy."""

    def __init__(self, state: ClusterState, policy: Policy) -> None:
        self._state = state
        self._policy = policy

    def __call__(self, arguments: Arguments) -> list[HostPriority]:
        """A score for every offered node.

        Raises:
            QuantityError: an amount of GPUs that cannot be read.
        """
        wish = wish_of(arguments.pod)
        return [
            HostPriority(host=view.name, score=self._policy(wish, view))
            for view, _ in self._state.look(arguments.node_names or ())
        ]
