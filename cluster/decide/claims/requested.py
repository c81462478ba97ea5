"""What the claims of one pod ask for, and what they have: of our driver's devices, in one value. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from cluster import names
from cluster.objects.claims import (
    ClaimedDevice,
    DeviceClass,
    DeviceRequest,
    ExactRequest,
    PodClaims,
    ResourceClaim,
    Selector,
)

Terms = tuple[str, ...]
"""CEL expressions, all of which a device must satisfy."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The devices of the cluster that satisfy some expressions for certain."""

    uuids: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    unknown: str | None = None
    """An expression that cannot be judged here, of some device."""


Judge = Callable[[Terms], Accepted]


@dataclass(frozen=True, slots=True)
class Rules:
    """What claims are read by."""

    driver: str = names.DRA_DRIVER
    """Our driver's name."""
    judge: Judge | None = None
    """None where nobody plans: then any device would do, as kube-scheduler chooses it."""


def requested_by(
    claims: Mapping[str, ResourceClaim | None],
    classes: Mapping[str, DeviceClass],
    rules: Rules,
    *,
    are_new: bool = False,
) -> PodClaims | None:
    """What a pod with these claims asks for; None if that is none of our devices.

    Args:
        claims: what the pod calls it -> claim; None for one that does not exist (yet).
        classes: name -> DeviceClass.
        rules: our driver, and how expressions are judged.
        are_new: whether they are as users send them: our toleration is still to come.
    """
    known = {name: one for name, one in claims.items() if one is not None}
    wanted_by = {name: tuple(_requests(one, classes, rules.driver)) for name, one in known.items()}
    called = [name for name, one in known.items() if wanted_by[name] or held_by(one, rules.driver)]
    ours = [(known[name], wanted_by[name]) for name in called]
    if not ours:
        return None
    held = tuple(device for one, _ in ours for device in held_by(one, rules.driver))
    open_requests = [way for one, wanted in ours if one.status.allocation is None for way in wanted]
    count = len(held) + sum(way.count for way, _ in open_requests)
    if not count:
        return None
    keys = {tolerated(one) for one, _ in ours}
    found = PodClaims(
        count=count,
        uids=tuple(sorted(one.metadata.uid for one, _ in ours)),
        names=tuple(called),
        key=next(iter(keys)) if len(keys) == 1 else "",
        held=held,
    )
    if rules.judge is None or not open_requests:
        return found
    terms = {terms for _, terms in open_requests}
    problem = _problem(ours, len(claims) - len(known), terms, has_key=are_new or bool(found.key))
    accepted = Accepted() if problem else rules.judge(next(iter(terms)))
    if not problem and not accepted.uuids and accepted.unknown:
        problem = f"the expression {accepted.unknown} cannot be evaluated here"
    return msgspec.structs.replace(found, problem=problem, accepted=accepted.uuids, models=accepted.models)


def held_by(claim: ResourceClaim, driver: str) -> tuple[ClaimedDevice, ...]:
    """The devices of a driver that are allocated to a claim. Administrators' access holds nothing."""
    allocation = claim.status.allocation
    if allocation is None:
        return ()
    return tuple(
        ClaimedDevice(claim=claim.metadata.uid, node=one.pool, device=one.device)
        for one in allocation.devices.results
        if one.driver == driver and not one.admin_access
    )


def tolerated(claim: ResourceClaim) -> str:
    """The value that only this claim tolerates on a held device, as admission wrote it; empty without one."""
    ways = [way for request in claim.spec.devices.requests for way in request.ways]
    values = {
        next((one.value for one in way.tolerations if one.key == names.HELD_TAINT), "")
        for way in ways
        if not way.admin_access
    }
    return next(iter(values)) if len(values) == 1 else ""


def is_of_driver(selectors: Iterable[Selector], driver: str) -> bool:
    """Whether expressions speak of a driver's devices: they name it."""
    return any(one.cel and driver in one.cel.expression for one in selectors)


def _requests(
    claim: ResourceClaim, classes: Mapping[str, DeviceClass], driver: str
) -> Iterator[tuple[ExactRequest, Terms]]:
    """The requests for our devices, by the first way in which each can be met, with their expressions."""
    for request in claim.spec.devices.requests:
        for way in request.ways:
            known = classes.get(way.device_class_name)
            selectors = (*(known.spec.selectors if known else ()), *way.selectors)
            if not way.admin_access and is_of_driver(selectors, driver):
                yield way, tuple(one.cel.expression for one in selectors if one.cel)
                break


def _problem(
    ours: list[tuple[ResourceClaim, tuple[tuple[ExactRequest, Terms], ...]]],
    missing: int,
    terms: set[Terms],
    *,
    has_key: bool,
) -> str | None:
    """Why it is not known which devices would do."""
    requests: list[DeviceRequest] = [one for claim, _ in ours for one in claim.spec.devices.requests]
    ways = [way for _, wanted in ours for way, _ in wanted]
    if missing:
        return "a claim of it does not exist yet"
    if len(terms) > 1:
        return "its claims ask for devices in different ways"
    if any(one.first_available for one in requests):
        return "its claim has alternatives"
    if any(way.allocation_mode != "ExactCount" or way.capacity for way in ways):
        return "its claim asks for all devices of a node, or for a part of one"
    if sum(way.count for way in ways) > 1 and any(claim.spec.devices.constraints for claim, _ in ours):
        return "its claim has a constraint on several devices"
    return None if has_key else "its claims were not made under GPU Booking's webhook"
