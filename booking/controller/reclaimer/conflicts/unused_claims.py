"""Which claims have devices for nobody: their pods wait, and kube-scheduler does not bind them. Pure.

kube-scheduler allocates and reserves a claim just before it asks us to bind the pod. If the bind is refused
it takes the pod out of ``reservedFor``, and the claim keeps its devices, on which filter may then refuse the
pod for ever. It takes them back itself only where it has found another node that the allocation rules out.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster import names
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.predicates import closed
from cluster.decide.request import gpu_request_of
from cluster.objects.claims import Place
from cluster.objects.pods import Pod, is_live

NOBODY: Final = ()
"""``PodHoldings.users`` of a claim that is reserved for no pod."""


def unused_claims(
    snapshot: ReclaimerSnapshot, kept: frozenset[Place], *, scheduler: str = names.SCHEDULER_NAME
) -> Mapping[str, tuple[Pod, ...]]:
    """Uid of each claim that has devices and is reserved for nobody -> the pods that name it: all wait.

    Left out are those of closed nodes, where the pods are bound once these open, and those whose device
    another claim has, too, as long as kube-scheduler would count it as free and give it to the next pod.

    Args:
        snapshot: this instant.
        kept: devices that nobody is given, since two claims had them (``spoiled_devices``).
        scheduler: whose pods these are: what other schedulers are about to do is not known.
    """
    waiting = [pod for pod in snapshot.pods.values() if pod.claims is not None and not pod.spec.node_name]
    found = {uid for pod in waiting for uid in _had_in_vain(pod, snapshot, kept)}
    users: dict[str, list[Pod]] = {uid: [] for uid in sorted(found)}
    for pod in snapshot.pods.values() if found else ():
        for uid in found.intersection(pod.claims.uids if pod.claims else ()):
            users[uid].append(pod)
    return {uid: tuple(pods) for uid, pods in users.items() if all(_waits(pod, scheduler) for pod in pods)}


def _waits(pod: Pod, scheduler: str) -> bool:
    return is_live(pod) and not pod.spec.node_name and pod.spec.scheduler_name == scheduler


def _had_in_vain(pod: Pod, snapshot: ReclaimerSnapshot, kept: frozenset[Place]) -> Iterator[str]:
    """Uids of the claims of a pod that have their devices for nobody."""
    if pod.claims is None or not pod.claims.held or pod.claims.resources:
        return
    for node in {one.node for one in pod.claims.held}:
        known = snapshot.node_snapshots.get(node)
        if known is None or closed(gpu_request_of(pod), *known):
            continue
        of_claims = [each for each in known[0].holdings if each.users is not None]
        mine = {one.claim for one in pod.claims.held}
        for each in of_claims:
            if each.uid in mine and each.users == NOBODY and not _is_missed(each, known[0].holdings, kept):
                yield each.uid


def _is_missed(claim: PodHoldings, others: tuple[PodHoldings, ...], kept: frozenset[Place]) -> bool:
    """Whether kube-scheduler would give away what another claim has, if this one gave it back.

    It keeps whole devices in a set; of shares it adds up the memory.
    """
    return any(
        (one.node, one.device) not in kept
        for one in claim.claimed
        for other in others
        for that in other.claimed
        if that.claim != claim.uid and that.device == one.device and not (one.memory and that.memory)
    )
