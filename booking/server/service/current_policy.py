"""The policy in force, and its version, which is shown with every booking that was accepted under it."""

from collections.abc import Callable

from booking.policy.limits import Limits
from booking.policy.policy import Policy


class CurrentPolicy:
    """The policy in force. Thread-safe."""

    def __init__(self, policy: Limits | Callable[[], Policy]) -> None:
        """Args: policy: fixed limits for all users, or a function that returns the current policy."""
        self._policy = _always(policy) if isinstance(policy, Limits) else policy
        self._known: tuple[Policy, str] | None = None

    def policy(self) -> Policy:
        """The limits in force; a file may have changed since the last call."""
        return self._policy()

    def version(self, policy: Policy) -> str:
        """The version of a policy; computed once for each."""
        known = self._known
        if known is None or known[0] is not policy:
            known = self._known = (policy, policy.version)
        return known[1]


def _always(limits: Limits) -> Callable[[], Policy]:
    manual = Limits(zone=limits.zone)
    values = {name: getattr(limits, name) for name in limits.__struct_fields__}
    policy = Policy(
        zone=limits.zone,
        defaults={name: value for name, value in values.items() if value != getattr(manual, name)},
    )
    return lambda: policy
