"""The pods of a state in groups: those of each node, those of each user.

A group lives from state to state until a pod of it changes, and remembers what was reckoned about it: with a
thousand pods most of a state is what it was before.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

from cluster import names
from cluster.objects.pods import Pod

Uid = str
V = TypeVar("V")


class Group:
    """Some pods of a state by uid; never changed."""

    def __init__(self, pods: Mapping[Uid, Pod]) -> None:
        self.pods = pods
        self._known: dict[Hashable, Any] = {}

    def reckoned(self, about: Hashable, reckon: Callable[[], V]) -> V:
        """What was reckoned about these pods before, or is now.

        Args:
            about: names the value, with all that it depends on besides the pods.
            reckon: without side effects.
        """
        if about not in self._known:
            self._known[about] = reckon()
        found: V = self._known[about]
        return found


NOBODY = Group({})


def node_of(pod: Pod) -> str:
    """The node that a pod is bound to, empty for one that is not."""
    return pod.spec.node_name or ""


def user_of(pod: Pod) -> str:
    """The user to whom a pod belongs; empty where it belongs to none."""
    return pod.metadata.annotation(names.USER) or ""


def grouped(pods: Iterable[Pod], by: Callable[[Pod], str]) -> Mapping[str, Group]:
    """All pods in their groups."""
    found: dict[str, dict[Uid, Pod]] = {}
    for pod in pods:
        found.setdefault(by(pod), {})[pod.metadata.uid] = pod
    return {name: Group(one) for name, one in found.items()}


def regrouped(
    groups: Mapping[str, Group], before: Pod | None, after: Pod | None, by: Callable[[Pod], str]
) -> Mapping[str, Group]:
    """The groups after a change of one pod."""
    found = dict(groups)
    if before is not None:
        rest = {uid: pod for uid, pod in found[by(before)].pods.items() if uid != before.metadata.uid}
        found[by(before)] = Group(rest)
    if after is not None:
        others = found.get(by(after), NOBODY).pods
        found[by(after)] = Group({**others, after.metadata.uid: after})
    return found
