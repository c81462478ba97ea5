"""What the claims of one pod ask for, and what they have: of our driver's devices, in one value. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from cluster import names
from cluster.decide.claims.configuration import NONE_REFUSED, names_of, own_entries, refusals
from cluster.decide.claims.problems import MOST, Request, Way, problem_of, refusal_of
from cluster.decide.claims.terms import Accepted, Terms, terms_of
from cluster.objects.claim_shares import shared_memory
from cluster.objects.claims import (
    ClaimedDevice,
    ClaimedWay,
    DeviceClass,
    PodClaims,
    ResourceClaim,
    Selector,
)

Judge = Callable[[Terms], Accepted]
_NAMED: Final = re.compile(r"device\.driver\s*==\s*['\"]")
"""An expression that names a driver."""
_EXTENDED: Final = "/"
"""The claim for extended resources among those that the pod names: no name of one."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What claims are read by."""

    driver: str = names.DRA_DRIVER
    """Our driver's name."""
    judge: Judge | None = None
    """None where nobody plans: then any device would do, as kube-scheduler chooses it."""


@dataclass(frozen=True, slots=True)
class Extended:
    """What a pod asks for by extended resources (``extended``)."""

    resources: tuple[str, ...]
    """Those that give our devices."""
    claim: ResourceClaim
    """The claim that kube-scheduler has made for them, or would make."""


def requested_by(
    claims: Mapping[str, ResourceClaim | None],
    classes: Mapping[str, DeviceClass],
    rules: Rules,
    *,
    are_new: bool = False,
    extended: Extended | None = None,
) -> PodClaims | None:
    """What a pod with these claims asks for; None if that is none of our devices.

    Args:
        claims: what the pod calls it -> claim; None for one that does not exist (yet).
        classes: name -> DeviceClass.
        rules: our driver, and how expressions are judged.
        are_new: whether they are as users send them: our toleration is still to come.
        extended: what the pod asks for by extended resources; None if that is nothing.
    """
    if extended:
        claims = {**claims, _EXTENDED: extended.claim}
    known = {name: one for name, one in claims.items() if one is not None}
    wanted_by = {name: tuple(_requests(one, classes, rules)) for name, one in known.items()}
    called = [name for name, one in known.items() if wanted_by[name] or held_by(one, rules.driver)]
    ours = [known[name] for name in called]
    held = tuple(device for one in ours for device in held_by(one, rules.driver))
    waiting_by = {name: wanted_by[name] for name in called if known[name].status.allocation is None}
    waiting = [one for requests in waiting_by.values() for one in requests]
    count = len(held) + _least(waiting)
    if not count:
        return None
    by_uid = sorted(
        (
            known[name].metadata.uid,
            len(held_by(known[name], rules.driver)) + _least(waiting_by.get(name, ())),
            tolerated(known[name]),
        )
        for name in called
        if name != _EXTENDED or known[name].metadata.uid
    )
    resources = extended.resources if extended and _EXTENDED in called else ()
    keys = tuple(key for *_, key in by_uid)
    found = PodClaims(
        count=count,
        uids=tuple(uid for uid, *_ in by_uid),
        counts=tuple(number for _, number, _ in by_uid),
        names=(*(name for name in called if name != _EXTENDED), *resources),
        keys=keys,
        held=held,
        memory=_memory(held, waiting),
        refused=tuple(
            one.refused for name in called for one in wanted_by[name] if one.refused != NONE_REFUSED
        ),
        resources=resources,
    )
    if rules.judge is None or not waiting:
        return found
    are_marked = are_new or all(keys)
    problem = problem_of(ours, waiting, missing=len(claims) - len(known), are_marked=are_marked)
    largest = max(map(_least, waiting_by.values()))
    return _planned(found, waiting, rules.judge, problem, largest=largest)


def _planned(
    found: PodClaims, waiting: list[Request], judge: Judge, problem: str | None, *, largest: int
) -> PodClaims:
    """The same with what would do, or why that is not known."""
    if refusal := refusal_of(waiting, judge, largest=largest):
        return msgspec.structs.replace(found, problem=refusal, refusal=refusal, accepted=frozenset())
    if found.resources:  # nobody plans with it, but what would do is told
        return _judged(found, waiting, judge) if len(waiting) == 1 else found
    if found.held:
        problem = "some of its claims have their devices, and others have none"
    if problem:
        return msgspec.structs.replace(found, problem=problem, accepted=frozenset())
    return _judged(found, waiting, judge)


def _share_problem(waiting: list[Request], accepted: Accepted) -> str | None:
    """Why it is not known which parts of devices they would get, a clause; None where they are whole, too."""
    if accepted.shared is None:
        return "its claim asks for an amount, and only some devices can be shared"
    is_plain = len(waiting) == 1 and len(waiting[0].ways) == 1 and waiting[0].ways[0].count == 1
    if accepted.shared and not (is_plain and not waiting[0].ways[0].is_all):
        return "its claims ask for parts of several devices, or have alternatives of which one is a part"
    return None


def _memory(held: Iterable[ClaimedDevice], waiting: Iterable[Request]) -> int:
    """MiB of each device; of alternatives the least, since any of them will do. 0 if it has some whole."""
    had = [one.memory for one in held]
    asked = [min((way.memory for way in one.ways if way.memory), default=0) for one in waiting]
    return max([*had, *asked], default=0) if all([*had, *asked]) else 0


def _least(requests: Iterable[Request]) -> int:
    return sum(one.least for one in requests)


def _judged(found: PodClaims, waiting: list[Request], judge: Judge) -> PodClaims:
    """The same with what would do. Of several requests all have the same single way."""
    ways: list[ClaimedWay] = []
    is_share = False
    for number, way in enumerate(waiting[0].ways):
        accepted, problem = judge(way.terms), None
        count = sum(one.ways[number].count for one in waiting)
        if accepted.unknown:
            problem = accepted.unknown
        elif way.memory and (shares := _share_problem(waiting, accepted)):
            problem = shares
        elif way.is_all and accepted.each is None:
            problem = "its claim asks for all devices of a node, and not all nodes have as many that would do"
        if problem:
            return msgspec.structs.replace(found, problem=problem, accepted=frozenset())
        if way.is_all:
            count = accepted.each or 1
        if count > MOST and len(waiting) == 1:
            accepted = Accepted()  # kube-scheduler passes it over
        is_share = is_share or (number == 0 and bool(accepted.shared))
        ways.append(ClaimedWay(count, accepted.uuids, accepted.models))
    first = next((way for way in ways if way.accepted), ways[0])
    return msgspec.structs.replace(
        found,
        count=first.count,
        accepted=first.accepted,
        models=frozenset[str]().union(*(way.models for way in ways)),
        memory=found.memory if is_share else 0,
        ways=tuple(ways) if len(ways) > 1 else (),
    )


def held_by(claim: ResourceClaim, driver: str) -> tuple[ClaimedDevice, ...]:
    """The devices of a driver that are allocated to a claim. Administrators' access holds nothing."""
    allocation = claim.status.allocation
    if allocation is None:
        return ()
    return tuple(
        ClaimedDevice(
            claim=claim.metadata.uid,
            node=one.pool,
            device=one.device,
            memory=shared_memory(claim, one),
        )
        for one in allocation.devices.results
        if one.driver == driver and not one.admin_access
    )


def tolerated(claim: ResourceClaim) -> str:
    """The value that only this claim tolerates on a held device, as admission wrote it; empty without one."""
    if claim.mark is not None:
        return claim.mark
    ways = [way for request in claim.spec.devices.requests for way in request.ways]
    values = {
        next((one.value for one in way.tolerations if one.key == names.HELD_TAINT), "")
        for way in ways
        if not way.admin_access
    }
    return next(iter(values)) if len(values) == 1 else ""


def is_of_driver(selectors: Iterable[Selector], driver: str) -> bool:
    """Whether expressions speak of a driver's devices: they name it, as a text of its own."""
    quoted = (f"'{driver}'", f'"{driver}"')
    return any(one.cel and any(name in one.cel.expression for name in quoted) for one in selectors)


def _may_be_ours(selectors: Iterable[Selector], terms: Terms, judge: Judge | None) -> bool:
    """Whether expressions that do not name our driver accept a device of it, and name no other one."""
    is_of_another = any(one.cel and _NAMED.search(one.cel.expression) for one in selectors)
    return judge is not None and not is_of_another and bool(judge(terms).uuids)


def _requests(claim: ResourceClaim, classes: Mapping[str, DeviceClass], rules: Rules) -> Iterator[Request]:
    """The requests for our devices, each with its ways of them in their order."""
    own = own_entries(claim.spec.devices)
    for request in claim.spec.devices.requests:
        ways: list[Way] = []
        for name, way in zip(names_of(request), request.ways, strict=True):
            known = classes.get(way.device_class_name)
            selectors = (*(known.spec.selectors if known else ()), *way.selectors)
            entries = (*(known.spec.config if known else ()), *own)
            terms = terms_of(selectors, way.capacity)
            is_named = is_of_driver(selectors, rules.driver)
            may_be = is_named or (known is not None and _may_be_ours(selectors, terms, rules.judge))
            if may_be and not way.admin_access:
                said = refusals(name, entries, rules.driver)
                ways.append(Way(way, terms, said, is_named=is_named))
        if ways:
            yield Request(tuple(ways), others=len(request.ways) - len(ways))
