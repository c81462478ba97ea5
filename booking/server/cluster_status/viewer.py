"""Pods and names that a user may see: always their own, others' as the policy says."""

from dataclasses import dataclass

from booking.policy.visibility import Visibility, may_see_user
from booking.principals import Principal
from cluster import names
from cluster.objects.pods import Pod


@dataclass(frozen=True, slots=True)
class Viewer:
    """A user who looks at the cluster, and what the policy lets them see."""

    who: Principal
    visibility: Visibility

    def may_name(self, pod: Pod) -> bool:
        """Whether they may learn which pod it is, and whose."""
        return self.may_name_user(self.user_of(pod))

    def may_name_user(self, user: str | None) -> bool:
        """Whether they may see this user's name and pods; None: a pod without an owner."""
        return may_see_user(self.who, user, self.visibility)

    def may_ask_about(self, pod: Pod) -> bool:
        """Whether they may see the explanation: also for a pod without an owner, if they know its name."""
        return self.may_name(pod) or self.user_of(pod) is None

    @staticmethod
    def user_of(pod: Pod) -> str | None:
        """User id of the pod's owner; None if it has none."""
        return pod.metadata.annotation(names.USER) or None
