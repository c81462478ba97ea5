"""The dependencies that all verbs of the service share, and what they all do in the same way."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol

import msgspec

from booking.availability.calendars import Calendars
from booking.capacity import Capacity
from booking.errors import RefusedError
from booking.records import Violation
from booking.service.current_policy import CurrentPolicy
from booking.store import Store
from cluster.decide.identity import DEFAULT_RULES, Rule
from cluster.process.clock import Clock

_ID_LETTERS: Final = "bcdfghjkmnpqrstvwxz23456789"
"""Nothing that is easily misread, and no vowels: no words."""
_ID_LENGTH: Final = 10
_SECOND: Final = timedelta(seconds=1)


GpuOrder = Literal["cordon", "uncordon", "clear"]
"""Take a GPU out of use for new pods; give it back; say that what was wrong with it is mended."""


class PodToEvict(msgspec.Struct, frozen=True, kw_only=True):
    """The pod that an order to evict is about."""

    user: str | None
    """To whom it belongs; None: to nobody."""
    booking: str | None
    """The booking that covers it, as the pod says for people."""
    node: str
    gpus: int
    """GPUs that it holds at most at one time."""
    controller: str | None
    """What makes another in its place (``Job/train``); None: nothing does."""


class Evictions(Protocol):
    """Where orders to evict a pod are written."""

    def order(self, namespace: str, pod: str, *, by: str, reason: str, at: datetime) -> None:
        """Write one.

        Raises:
            RefusedError: it is not a pod that goes by order.
            UnknownPodError: there is none of that name.
            ClusterError: the API server does not answer.
        """
        ...

    def dry_run(self, namespace: str, pod: str, *, by: str, reason: str, at: datetime) -> PodToEvict:
        """Do everything of it but write it, by the API server's own dry run.

        Raises:
            RefusedError, UnknownPodError, ClusterError: as of ``order``.
        """
        ...


class GpuOrders(Protocol):
    """Where orders about GPUs are written."""

    def order(
        self, node: str, gpu: str, order: GpuOrder, *, message: str, at: datetime, dry_run: bool = False
    ) -> str:
        """Write one; the GPU's UUID.

        Args:
            node: the node's name.
            gpu: a UUID, or the number of a GPU.
            order: which.
            message: who says so, and why.
            at: now.
            dry_run: do everything of it but write it, by the API server's own dry run.

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
    """The second that an instant is in."""
    return moment.replace(microsecond=0)


def rounded_up(moment: datetime) -> datetime:
    """The first whole second that is not before an instant."""
    second = whole(moment)
    return second if second == moment else second + _SECOND


def refused(rule: str, message: str) -> RefusedError:
    """The error for a request with one violation."""
    return RefusedError([Violation(rule=rule, message=message)])
