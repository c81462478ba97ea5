"""The pods without a booking that wait, as units of fair shares; read again only where something changed."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from booking.fair_shares.pools import Instant
from booking.fair_shares.standing import priority_of, tenant_of
from booking.policy.fair_shares import FairShares
from cluster import names
from cluster.decide.eviction.costs import microseconds
from cluster.decide.fairshare import Unit
from cluster.decide.request import GpuRequest, gpu_request_of
from cluster.objects.barred_nodes import barred
from cluster.objects.pods import Pod, first_created, is_live
from cluster.objects.quantity import QuantityError
from cluster.objects.scheduling_gates import other_gates


@dataclass(frozen=True, slots=True)
class Applicant:
    """A pod that waits for its turn."""

    pod: Pod
    request: GpuRequest
    resource: str
    """The resource of all its devices."""
    unit: Unit


class Applicants:
    """The applicants of one process. Not thread-safe."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[Pod, Applicant | None]] = {}
        """Uid -> the pod, and the same as an applicant; None where no turn could give what it asks for."""
        self._shares: FairShares | None = None

    def at(self, snapshot: Instant, shares: FairShares) -> Mapping[str, Applicant]:
        """Uid -> each pod that waits for a turn at this instant."""
        if shares != self._shares:
            self._read, self._shares = {}, shares
        before, self._read = self._read, {}
        found: dict[str, Applicant] = {}
        for uid, pod in snapshot.pods.items():
            if pod.spec.node_name or uid in snapshot.cover or uid in snapshot.holds:
                continue
            known = before.get(uid)
            if known is None or known[0] is not pod:
                if not _waits(pod):
                    continue
                known = (pod, applicant_of(pod, shares))
            self._read[uid] = known
            if known[1] is not None:
                found[uid] = known[1]
        return found

    def odd(self) -> list[Pod]:
        """Waiting pods that no turn can serve: they need devices of several resources, shares, or none."""
        return [pod for pod, applicant in self._read.values() if applicant is None]


def _waits(pod: Pod) -> bool:
    """Whether nothing but a turn keeps a pod without a booking and without a node from one."""
    # The cache may still show a hold that was just dropped: the pod waits again after that.
    return is_live(pod) and not pod.metadata.annotation(names.HOLD) and not other_gates(pod)


def applicant_of(pod: Pod, shares: FairShares) -> Applicant | None:
    """The pod as an applicant; None if it does not ask for whole devices of one resource."""
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
