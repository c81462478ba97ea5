"""The pods without a booking that wait, as units of fair shares; read again only where something changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from booking.fair_shares.pools import Instant
from booking.fair_shares.standing import priority_of, tenant_of
from booking.policy.fair_shares import FairShares
from cluster import names
from cluster.decide.eviction.costs import microseconds
from cluster.decide.fairshare import Unit
from cluster.decide.request import GpuRequest, RequestKey, gpu_request_of
from cluster.objects.barred_nodes import barred
from cluster.objects.gangs import Gang, gang_of
from cluster.objects.pods import Pod, first_created, is_live, unmade_claims
from cluster.objects.quantity import QuantityError
from cluster.objects.scheduling_gates import is_late, is_queued, other_gates


@dataclass(frozen=True, slots=True)
class Applicant:
    """What waits for its turn: a pod, or a gang."""

    pod: Pod
    """The pod; of a gang the largest."""
    request: GpuRequest
    resource: str
    """The resource of all its devices."""
    unit: Unit
    members: tuple["Applicant", ...] = ()
    """The pods of a gang that wait, the largest first; empty for a single pod."""

    @property
    def singles(self) -> tuple["Applicant", ...]:
        """Its pods, each by itself."""
        return self.members or (self,)

    def member(self, gpus: int) -> "Applicant":
        """A pod of it that needs so many devices, by itself."""
        return next((one for one in self.members if one.request.devices == gpus), self)


class Applicants:
    """The applicants of one process. Not thread-safe."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[Pod, Applicant | None]] = {}
        """Uid -> the pod, and the same as an applicant; None where no turn could give what it asks for."""
        self._gangs: dict[str, Applicant] = {}
        """Key -> a gang that waits."""
        self._shares: FairShares | None = None
        self._late: set[str] = set()
        """Uids of pods that are late (``is_late``), kept for those that are read."""
        self.gathering: dict[str, tuple[int, Gang]] = {}
        """Uid of a pod whose gang is not complete -> how many pods of that there are, and the gang."""

    def at(self, snapshot: Instant, shares: FairShares) -> Mapping[str, Applicant]:
        """Unit's uid -> each pod and gang that waits for a turn at this instant."""
        if shares != self._shares:
            self._read, self._gangs, self._shares = {}, {}, shares
        before, self._read = self._read, {}
        found: dict[str, Applicant] = {}
        waiting: dict[Gang, list[Applicant]] = {}
        for uid, pod in snapshot.pods.items():
            if pod.spec.node_name or uid in snapshot.cover or uid in snapshot.holds:
                continue
            known = before.get(uid)
            if known is None or known[0] is not pod:
                if not _waits(pod):
                    continue
                known = (pod, applicant_of(pod, shares))
                (self._late.add if is_late(pod) else self._late.discard)(uid)
            self._read[uid] = known
            if known[1] is None:
                continue
            gang = gang_of(pod)
            if gang is None:
                found[uid] = known[1]
            else:
                waiting.setdefault(gang, []).append(known[1])
        self._late = {uid for uid in self._late if uid in self._read}
        return found | self._whole(waiting, snapshot)

    def late(self) -> list[Pod]:
        """Waiting pods of which admission could not know that they ask for GPUs."""
        return [self._read[uid][0] for uid in sorted(self._late)]

    def queued(self, snapshot: Instant) -> Mapping[RequestKey, GpuRequest]:
        """What pods behind our gate ask for, those of gangs that gather or are about to start among them."""
        singles = (applicant for pod, applicant in self._read.values() if applicant and is_queued(pod))
        held = (snapshot.pods[uid] for uid in snapshot.holds if uid in snapshot.pods)
        starting = (applicant_of(pod, FairShares()) for pod in held if is_queued(pod))
        return {one.request.key: one.request for one in (*singles, *filter(None, starting))}

    def odd(self) -> list[Pod]:
        """Waiting pods that no turn can serve: they need devices of several resources, shares, or none."""
        return [pod for pod, applicant in self._read.values() if applicant is None]

    def _whole(self, waiting: Mapping[Gang, list[Applicant]], snapshot: Instant) -> dict[str, Applicant]:
        """The gangs of which enough pods exist: of one that has begun to start, the rest."""
        begun = _begun(waiting, snapshot)
        before, self._gangs, self.gathering = self._gangs, {}, {}
        for gang, members in waiting.items():
            there = len(members) + begun[gang]
            if there < gang.size:
                self.gathering |= {one.unit.uid: (there, gang) for one in members}
                continue
            known = before.get(gang.key)
            if known is None or set(map(id, known.members)) != set(map(id, members)):
                known = _gang(gang, members)
            self._gangs[gang.key] = known
        return dict(self._gangs)


def _begun(gangs: Mapping[Gang, object], snapshot: Instant) -> Mapping[Gang, int]:
    """How many pods of each gang have a node, a hold or a booking."""
    found = dict.fromkeys(gangs, 0)
    for uid, pod in snapshot.pods.items() if gangs else ():
        has_devices = pod.spec.node_name or uid in snapshot.holds or uid in snapshot.cover
        if has_devices and is_live(pod):
            gang = gang_of(pod)
            if gang in found:
                found[gang] += 1
    return found


def _gang(gang: Gang, waiting: Iterable[Applicant]) -> Applicant:
    members = tuple(sorted(waiting, key=lambda one: (-one.request.devices, one.unit.key)))
    first = members[0]
    unit = Unit(
        uid=gang.key,
        tenant=first.unit.tenant,
        gpus=sum(one.unit.gpus for one in members),
        members=tuple(one.unit.gpus for one in members),
        kind=frozenset(one.unit.kind for one in members),
        priority=max(one.unit.priority for one in members),
        created=min(one.unit.created for one in members),
    )
    return Applicant(first.pod, first.request, first.resource, unit, members)


def _waits(pod: Pod) -> bool:
    """Whether nothing but a turn keeps a pod without a booking and without a node from one."""
    # The cache may still show a hold that was just dropped: the pod waits again after that.
    return is_live(pod) and not pod.metadata.annotation(names.HOLD) and not other_gates(pod)


def applicant_of(pod: Pod, shares: FairShares) -> Applicant | None:
    """The pod as an applicant; None if it does not ask for whole devices of one resource.

    Nothing can be kept for one that asks by an extended resource that DRA satisfies, nor where it is not
    known which devices its claims would take.
    """
    claims = pod.claims
    if claims and (claims.resources or (claims.is_unclear and not unmade_claims(pod))):
        return None
    try:
        request = gpu_request_of(pod)
    except QuantityError:
        return None
    demand = {resource: count for resource, count in request.demand.items() if count}
    if len(demand) != 1 or request.share:
        return None
    unit = Unit(
        uid=pod.metadata.uid,
        tenant=tenant_of(pod, shares),
        gpus=request.devices,
        kind=(request.key, barred(pod), _shape(pod)),
        priority=priority_of(pod),
        created=microseconds(first_created(pod)),
    )
    return Applicant(pod, request, next(iter(demand)), unit)


def _shape(pod: Pod) -> bytes:
    """Equal for pods that kube-scheduler places on the same nodes."""
    spec = msgspec.structs.replace(pod.spec, scheduling_gates=None)
    return msgspec.json.encode((pod.metadata.namespace, pod.metadata.labels, spec))
