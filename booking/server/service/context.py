"""The dependencies that all verbs of the service share, and what they all do in the same way."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol

import msgspec

from booking.server.availability.calendars import Calendars
from booking.server.capacity.capacity import Capacity
from booking.server.errors import RefusedError
from booking.server.records import Violation
from booking.server.service.current_policy import CurrentPolicy
from booking.server.service.remembered_alternatives import RememberedAlternatives
from booking.server.store import Store
from cluster.decide.identity import DEFAULT_RULES, Rule
from cluster.process.clock import Clock

_ID_LETTERS: Final = "bcdfghjkmnpqrstvwxz23456789"
"""No letters that are easily misread, and no vowels, so no words."""
_ID_LENGTH: Final = 10
_SECOND: Final = timedelta(seconds=1)


GpuOrder = Literal["cordon", "uncordon", "clear"]
"""Take a GPU out of use for new pods; give it back; report that it has been repaired."""


class PodToEvict(msgspec.Struct, frozen=True, kw_only=True):
    """The pod that an order to evict refers to."""

    user: str | None
    """Its owner; None if it has none."""
    booking: str | None
    """The booking that covers it, from the pod's annotation."""
    node: str
    gpus: int
    """The most GPUs that it holds at one time."""
    controller: str | None
    """The controller that replaces it (``Job/train``); None without one."""
    not_replaced: str | None = None
    """Why the controller does not, as far as is known: a clause; None where it does."""


class Evictions(Protocol):
    """Writes orders to evict a pod."""

    def order(self, namespace: str, pod: str, *, by: str, reason: str, at: datetime) -> None:
        """Write an order.

        Raises:
            RefusedError: it is not a pod that goes by order.
            UnknownPodError: there is none of that name.
            ClusterError: the API server does not answer.
        """
        ...

    def dry_run(self, namespace: str, pod: str, *, by: str, reason: str, at: datetime) -> PodToEvict:
        """Do all of it except the write, by the API server's own dry run.

        Raises:
            RefusedError, UnknownPodError, ClusterError: as for ``order``.
        """
        ...


class GpuOrders(Protocol):
    """Writes orders about GPUs."""

    def order(
        self, node: str, gpu: str, order: GpuOrder, *, message: str, at: datetime, dry_run: bool = False
    ) -> str:
        """Write an order; returns the GPU's UUID.

        Args:
            node: the node's name.
            gpu: a UUID, or the number of a GPU.
            order: which.
            message: who says so, and why.
            at: now.
            dry_run: do all of it except the write, by the API server's own dry run.

        Raises:
            UnknownGpuError: there is no such node, or no such GPU in it.
            ClusterError: the API server does not answer, or forbids it.
        """
        ...


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """The dependencies of the booking service."""

    store: Store
    clock: Clock
    current_policy: CurrentPolicy
    capacity: Callable[[], Capacity]
    new_id: Callable[[], str]
    evictions: Evictions | None = None
    gpus: GpuOrders | None = None
    calendars: Calendars = field(default_factory=Calendars)
    alternatives: RememberedAlternatives = field(default_factory=RememberedAlternatives)
    identity_rules: tuple[Rule, ...] = DEFAULT_RULES
    """By which a name that is not a user id, an e-mail address, becomes one."""


def random_id() -> str:
    """The name of a booking: it cannot be guessed."""
    number, letters = secrets.randbelow(len(_ID_LETTERS) ** _ID_LENGTH), []
    for _ in range(_ID_LENGTH):
        number, letter = divmod(number, len(_ID_LETTERS))
        letters.append(_ID_LETTERS[letter])
    return "b-" + "".join(letters)


def whole(moment: datetime) -> datetime:
    """An instant truncated to the second."""
    return moment.replace(microsecond=0)


def rounded_up(moment: datetime) -> datetime:
    """An instant rounded up to the second."""
    second = whole(moment)
    return second if second == moment else second + _SECOND


def refused(rule: str, message: str) -> RefusedError:
    """The error for a request with one violation."""
    return RefusedError([Violation(rule=rule, message=message)])
