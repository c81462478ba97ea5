"""Gangs: pods of one user that start together or not at all, and leave together."""

from typing import Final, NamedTuple

from cluster import names
from cluster.objects.pods import Pod

LEAST: Final = 2
MOST: Final = 1000
"""Pods of a gang."""
_LONGEST: Final = 4
"""Characters of that number."""


class Gang(NamedTuple):
    """The gang of a pod. Pods that say different sizes are of different gangs."""

    namespace: str
    user: str
    """Nobody joins the gang of another user; empty for pods of nobody."""
    name: str
    """What its pods say, or else the uid of their controller."""
    size: int
    """How many pods it has when it starts."""

    @property
    def key(self) -> str:
        """The same as text."""
        return f"gang/{self.namespace}/{self.user}/{self.name}/{self.size}"


def size_in(text: str) -> int | None:
    """The number that ``names.GANG_SIZE`` says: 2 to ``MOST``; None if it is not such a number.

    >>> size_in("4"), size_in("1"), size_in("four")
    (4, None, None)
    """
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _LONGEST):
        return None
    return int(digits) if LEAST <= int(digits) <= MOST else None


def gang_of(pod: Pod) -> Gang | None:
    """The gang of a pod; None where it has none, or does not say which."""
    annotations = pod.metadata.annotations
    if not annotations or names.GANG_SIZE not in annotations:
        return None
    size, controller = size_in(annotations[names.GANG_SIZE]), pod.metadata.controller
    name = annotations.get(names.GANG, "").strip() or (controller.uid if controller else "")
    if size is None or not name:
        return None
    return Gang(pod.metadata.namespace, annotations.get(names.USER, ""), name, size)
