"""The message about a pod's cover, for its creator: the verdict in words."""

from datetime import UTC, datetime
from typing import Final

from booking.wording import clipped, counted
from cluster.decide.claims.extended import unbookable
from cluster.decide.coverage import Coverage, Kind
from cluster.decide.entitlement import Candidate
from cluster.objects.claims import PodClaims
from cluster.objects.pods import Pod

_NAMED: Final = 2
"""How many pods a message names; it counts the others."""


def clause(found: Coverage, namespace: str, claims: PodClaims | None = None) -> str:
    """The verdict in words, as an unfinished sentence: the caller adds what follows from it.

    Args:
        found: the verdict.
        namespace: the pod's namespace; pods of other namespaces are named with theirs.
        claims: what the pod asks for by claims.
    """
    booking, asks = found.booking, found.asks
    if asks is None and found.kind == "unbookable":
        if claims and claims.resources:
            return unbookable(claims.resources)
        return "Bookings cover devices of one kind, and this pod asks for several"
    if booking is None or asks is None:
        return "No running booking"
    spec, accepted = booking.spec, clipped(" or ".join(sorted(asks.accepts)))
    ends: dict[Kind, str] = {
        "covered": f"covers this pod until {day(spec.end)}",
        "later": f"starts {day(spec.start)}",
        "namespace": f"is for pods of namespace {_short(spec.namespace or '')}",
        "resource": f"is of {spec.resource}, and this pod asks for {asks.resource}",
        "model": f"is not for this pod, which accepts {accepted}",
        "share": f"is for shares of {spec.memory} MiB, and this pod asks for {_wanted(asks)}",
        "count": f"is too small for this pod, which asks for {_wanted(asks)}",
        "used-up": _use(found, asks, namespace),
        "place": "does not cover a pod where this one runs",
    }
    yours = f"Your booking of {spec.count} x {_short(spec.model, 42)} ({_short(booking.name)})"
    return f"{yours} {ends[found.kind]}"


def day(moment: datetime) -> str:
    """An instant with its weekday: ``Fri 2026-11-27 17:00 UTC``."""
    return moment.astimezone(UTC).strftime("%a %Y-%m-%d %H:%M UTC")


def _use(found: Coverage, asks: Candidate, namespace: str) -> str:
    by = _pods(found.users, namespace)
    others = f" besides those of {by}" if by else ""
    if found.left is None:
        return f"has too little left{others}, and this pod asks for {_wanted(asks)}"
    if found.left <= 0:
        return f"is used up by {by}"
    return f"has {counted(found.left, 'GPU')} left{others}, and this pod asks for {asks.gpus}"


def _wanted(asks: Candidate) -> str:
    share = asks.wants.shares.share if asks.wants.shares else None
    return share.text if share else counted(asks.gpus, "GPU")


def _pods(pods: tuple[Pod, ...], namespace: str) -> str:
    pod_names = [_short(p.metadata.name if p.metadata.namespace == namespace else p.key) for p in pods]
    more = len(pod_names) - _NAMED
    named = [*pod_names[:_NAMED], *([f"{more} more"] if more > 0 else [])]
    listed = f"{', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else "".join(named)
    return f"{'pod' if len(pods) == 1 else 'pods'} {listed}" if named else ""


def _short(text: str, longest: int = 32) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
