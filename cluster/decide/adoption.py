"""May a booking cover a running pod where it stands? Only where everybody else's stays placeable (law L5).

A pod of the owner's that runs already when a booking begins would be booked by it without anybody choosing
the place. Where that place is promised to others who can have no other, the pod is not covered: it stays, as
any pod without a booking does, and the booking keeps the place that it was promised.

Pods on which the booking stands already are not asked again: who has cover keeps it. Neither are pods that
leave for nobody: their devices are lost to others whether they are booked or not.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from cluster import names
from cluster.decide.ledger.claims import Claim
from cluster.decide.protection import lasting_protection
from cluster.decide.witness import Scene
from cluster.decide.witness.stage import Stage, scenes
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod, born

Pair = tuple[str, str]
"""Uid of a pod, and the name of the booking that does not cover it where it stands."""


@dataclass(frozen=True, slots=True)
class _Asking:
    """A running pod that a booking would cover from now on."""

    pod: Pod
    booking: Booking
    claim: Claim


def is_new(pod: Pod, booking: Booking) -> bool:
    """Whether the pod runs and does not say yet that the booking covers it."""
    return bool(pod.spec.node_name) and pod.metadata.annotation(names.BOOKING) != booking.name


def misplaced(stage: Stage) -> frozenset[Pair]:
    """Pods that the bookings of ``stage.instant.cover`` do not cover where they stand.

    Where not all of a model can stay, they are asked one after the other, who has booked earlier first.

    Args:
        stage: the instant, its cover being what entitlement says when places are not looked at.
    """
    asking = sorted(_asking(stage), key=_turn)
    together = scenes(stage, {one.booking.spec.model for one in asking})
    tight = {model for model, known in together.items() if not known.holds()}
    asking = [one for one in asking if one.booking.spec.model in tight]
    uids = {one.claim.uid for one in asking}
    cover = {uid: by for uid, by in stage.instant.cover.items() if uid not in uids}
    found: set[Pair] = set()
    known = _scenes(stage, cover, tight)
    for one in asking:
        model, more = one.booking.spec.model, {**cover, one.claim.uid: one.booking}
        on, then = known.get(model), _scenes(stage, more, {model})
        if on is None or (_allows(on, one) and (_is_spoilt(on) or not _is_spoilt(then.get(model)))):
            cover, known = more, {**known, **then}
        else:
            found.add((one.claim.uid, one.booking.name))
    return frozenset(found)


def _scenes(stage: Stage, cover: Mapping[str, Booking], models: Iterable[str]) -> dict[str, Scene]:
    """With this cover."""
    return scenes(replace(stage, instant=replace(stage.instant, cover=cover)), models)


def _allows(scene: Scene, one: _Asking) -> bool:
    return scene.allows(one.booking.name, one.claim.node, len(one.claim.devices))


def _is_spoilt(scene: Scene | None) -> bool:
    """Whether plans cannot be mended any more: the place of a plan that is out of date is not seen before."""
    return scene is not None and not scene.holds(with_begun=True)


def _asking(stage: Stage) -> Iterator[_Asking]:
    instant = stage.instant
    claims = _claims(stage)
    for uid, booking in instant.cover.items():
        pod, claim = instant.pods.get(uid), claims.get(uid)
        if pod is None or claim is None or not is_new(pod, booking) or claim.node in instant.gone:
            continue
        if lasting_protection(pod, claim, namespaces=instant.namespaces, home=instant.home) is None:
            yield _Asking(pod, booking, claim)


def _claims(stage: Stage) -> Mapping[str, Claim]:
    """Uid -> what a pod holds, drift counted in."""
    return {claim.uid: claim for view in stage.instant.views.values() for claim in view.claims}


def _turn(one: _Asking) -> tuple[object, ...]:
    return one.booking.spec.start, one.booking.name, born(one.pod), one.claim.uid
