"""May a booking cover a running pod on its present node? Only if all other bookings keep a place (law L5).

If a pod of the owner already runs when a booking begins, the booking would cover it although nobody chose its
place for that. Where that place is guaranteed to bookings that can have no other, the pod is not covered: it
stays, as any pod without a booking does, and the booking keeps its guaranteed place.

Pods that already carry the booking are not checked again: a pod keeps its cover. Nor are pods that are never
evicted: their devices are lost to other bookings whether the pods are booked or not.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from cluster import names
from cluster.decide.booking_plan import PlacementCheck
from cluster.decide.booking_plan.inputs import PlanInputs, placement_checks
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.protection import lasting_protection
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod, first_created

Pair = tuple[str, str]
"""Uid of a pod, and the name of the booking that does not cover it on its present node."""


@dataclass(frozen=True, slots=True)
class _NewlyCovered:
    """A running pod that a booking would cover from now on."""

    pod: Pod
    booking: Booking
    holding: PodHoldings


def is_new(pod: Pod, booking: Booking) -> bool:
    """Whether the pod runs and does not carry the booking's name yet."""
    return bool(pod.spec.node_name) and pod.metadata.annotation(names.BOOKING) != booking.name


def misplaced(inputs: PlanInputs) -> frozenset[Pair]:
    """Pods that the bookings of ``inputs.instant.cover`` do not cover on their present nodes.

    Where not all pods of a model can stay, they are checked one after the other, earliest booking first.

    Args:
        inputs: the instant, with the cover that entitlement computes when places are ignored.
    """
    candidates = sorted(_newly_covered(inputs), key=_turn)
    together = placement_checks(inputs, {one.booking.spec.model for one in candidates})
    tight = {model for model, known in together.items() if not known.holds()}
    candidates = [one for one in candidates if one.booking.spec.model in tight]
    uids = {one.holding.uid for one in candidates}
    cover = {uid: by for uid, by in inputs.instant.cover.items() if uid not in uids}
    found: set[Pair] = set()
    known = _checks(inputs, cover, tight)
    for one in candidates:
        model, more = one.booking.spec.model, {**cover, one.holding.uid: one.booking}
        on, then = known.get(model), _checks(inputs, more, {model})
        if on is None or (
            _allows(on, one) and (_is_beyond_repair(on) or not _is_beyond_repair(then.get(model)))
        ):
            cover, known = more, {**known, **then}
        else:
            found.add((one.holding.uid, one.booking.name))
    return frozenset(found)


def _checks(
    inputs: PlanInputs, cover: Mapping[str, Booking], models: Iterable[str]
) -> dict[str, PlacementCheck]:
    """The plans under this cover."""
    return placement_checks(replace(inputs, instant=replace(inputs.instant, cover=cover)), models)


def _allows(check: PlacementCheck, one: _NewlyCovered) -> bool:
    return check.allows(one.booking.name, one.holding.node, len(one.holding.devices))


def _is_beyond_repair(check: PlacementCheck | None) -> bool:
    """Whether plans cannot be repaired any more: a place of an outdated plan is not noticed before."""
    return check is not None and not check.holds(with_begun=True)


def _newly_covered(inputs: PlanInputs) -> Iterator[_NewlyCovered]:
    instant = inputs.instant
    holdings = _holdings(inputs)
    for uid, booking in instant.cover.items():
        pod, holding = instant.pods.get(uid), holdings.get(uid)
        if pod is None or holding is None or not is_new(pod, booking) or holding.node in instant.gone:
            continue
        if lasting_protection(pod, holding, namespaces=instant.namespaces, home=instant.home) is None:
            yield _NewlyCovered(pod, booking, holding)


def _holdings(inputs: PlanInputs) -> Mapping[str, PodHoldings]:
    """Uid -> the pod's holding, including drift."""
    return {holding.uid: holding for view in inputs.instant.views.values() for holding in view.holdings}


def _turn(one: _NewlyCovered) -> tuple[object, ...]:
    return one.booking.spec.start, one.booking.name, first_created(one.pod), one.holding.uid
