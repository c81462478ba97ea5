"""The dependencies of the pages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import tzinfo

from booking.eviction.settings import EvictionSettings
from booking.policy.policy import Policy
from booking.server.cluster_status import ClusterStatus
from booking.server.service import BookingService
from booking.server.web.mirror_barrier import MirrorBarrier
from booking.server.web.pages.csrf import CsrfProtection
from booking.server.web.pages.kept_form import KeptForms
from booking.server.web.request_guard import RequestGuard
from cluster.process.clock import Clock
from cluster.process.probes import Check

PodsOf = Callable[[], Mapping[str, tuple[str, ...]] | None]
"""Booking id -> ``namespace/name`` of the pods that it covers now; None while pods are not known."""


@dataclass(frozen=True, kw_only=True)
class PageParts:
    """All dependencies of the pages."""

    bookings: BookingService
    live: ClusterStatus
    policy: Callable[[], Policy]
    """The policy in force."""
    policy_trouble: Check
    """Why the present policy file is not in force."""
    guard: RequestGuard
    csrf: CsrfProtection
    kept: KeptForms | None = None
    """Keeps forms across signing in; None: nobody signs in here."""
    guarantee: MirrorBarrier
    unknown_capacity: Check
    """Why the number of GPUs is not known now."""
    zone: Callable[[], tzinfo]
    """The site's zone, in which days are counted and times are shown."""
    pods_of: PodsOf
    terms: EvictionSettings
    """What happens to pods whose booking is over."""
    resources: Callable[[], Mapping[str, str]] = dict
    """Model -> the resource under which pods request it."""
    clock: Clock
