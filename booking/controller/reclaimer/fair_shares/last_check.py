"""The last check before devices of others are taken for a turn: by the same decisions, on fresh shares."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final

from booking.controller.reclaimer.fair_shares.accounts import Accounts, with_leeway
from booking.controller.reclaimer.fair_shares.lines import Lines
from booking.controller.reclaimer.fair_shares.taking import running_in
from booking.controller.reclaimer.need import Need
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.holder_cache import HolderCache
from booking.fair_shares.applicants import applicant_of
from booking.fair_shares.pools import pools_of
from booking.fair_shares.standing import settings_of, tenant_of, tree_of
from booking.policy.fair_shares import FairShares
from cluster.decide.fairshare import Case, Tenant, Unit, deserve, is_legal
from cluster.decide.fairshare.settings import Amount
from cluster.objects.gangs import gang_of
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod, is_live

CHANGED: Final = "who holds and wants GPUs has changed: taking these back would not be fair any more"
OFF: Final = "the policy does not say any more that GPUs are taken back for fair shares"
GONE: Final = "its user has no share any more"


def allows_taking(hold: Hold, settings: FairShares) -> bool:
    """Whether the policy allows what a hold does."""
    return settings.mode == "reclaim" and not (hold.turn and settings.turn is None)


def is_half_way(pod: Pod, hold: Hold, snapshot: ReclaimerSnapshot) -> bool:
    """Whether some have left for a turn: it has been paid for, and what is left to take makes that of use."""
    if not hold.turn:
        return False
    leave = (uid for one in _of_unit(pod, snapshot).values() for uid in one.victims)
    return not all((victim := snapshot.pods.get(uid)) and is_live(victim) for uid in leave)


def share_problem(
    pod: Pod,
    need: Need,
    snapshot: ReclaimerSnapshot,
    holder_cache: HolderCache,
    *,
    lines: Lines,
    accounts: Accounts,
    settings: FairShares,
) -> str | None:
    """Why devices of others are not taken for the pod any more; None if they are.

    As if the pod, or its gang, still waited and none of its victims had been asked to leave.
    """
    holds = _of_unit(pod, snapshot)
    without = snapshot.without_holds(frozenset(holds))
    pool = pools_of(without, holder_cache, settings).get(need.model)
    if pool is None or applicant_of(pod, settings) is None:
        return GONE
    unit = _unit(pod, holds, tenant_of(pod, settings))
    wanted = dict(lines.line(need.model).wanted)
    wanted[unit.tenant] = wanted.get(unit.tenant, 0) + unit.gpus
    shares = deserve(tree_of(settings, need.model), pool.capacity, pool.held, wanted)
    books = accounts.books(need.model)
    # What was withheld has been paid with when the devices were taken.
    terms = replace(settings_of(settings), worth=Fraction(0))
    if any(hold.turn for hold in holds.values()):
        books = with_leeway(books, shares, unit.tenant)
    else:
        terms = replace(terms, turn=None)
    case = Case(unit, shares, books, terms, pool.largest_node)
    leave = {victim for hold in holds.values() for victim in hold.victims}
    running = running_in(pool.holders, without, settings, accounts.record)
    victims = {one.unit.uid: one for uid, one in running.items() if uid in leave}
    if victims and is_legal(case, victims, 0).kind == 0:
        return CHANGED
    return None


def _of_unit(pod: Pod, snapshot: ReclaimerSnapshot) -> Mapping[str, Hold]:
    """The pod's hold, with those of its gang."""
    gang = gang_of(pod)
    mates = snapshot.gangs.get(gang, ()) if gang else ()
    uids = [pod.metadata.uid, *(mate.metadata.uid for mate in mates if mate.metadata.uid in snapshot.turns)]
    return {uid: snapshot.holds[uid] for uid in uids if uid in snapshot.holds}


def _unit(pod: Pod, holds: Mapping[str, Hold], tenant: Tenant) -> Unit:
    gpus: tuple[Amount, ...] = tuple(len(hold.devices) for hold in holds.values())
    return Unit(uid=pod.metadata.uid, tenant=tenant, gpus=sum(gpus), members=gpus if len(gpus) > 1 else ())
