"""Who holds how many GPUs of each model without a booking, and how many there are to share. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from booking.eviction.holder import Holder
from booking.eviction.holder_cache import HolderCache
from booking.policy.fair_shares import FairShares
from booking.reclaimer.fair_shares.standing import tenant_of
from booking.reclaimer.snapshot import Snapshot
from cluster.decide.fairshare import Tenant


@dataclass(slots=True)
class Pool:
    """The devices of one model."""

    capacity: int = 0
    """Healthy devices of serving nodes that are not for booked pods or pods that never leave."""
    held: dict[Tenant, int] = field(default_factory=dict)
    """Tenant -> devices of its pods without a booking, bound or with a hold."""
    holders: dict[str, Holder] = field(default_factory=dict)
    """Uid -> a pod that may be evicted, as far as anything but shares says."""
    largest_node: int = 0
    """Devices of the node that has most."""


def pools_of(snapshot: Snapshot, holder_cache: HolderCache, shares: FairShares) -> Mapping[str, Pool]:
    """Model -> its pool."""
    pools: dict[str, Pool] = {}
    for name, node_holders in holder_cache.at(snapshot).items():
        agent = snapshot.node_snapshots[name][1]
        if agent != "alive" or node_holders.view.is_cordoned:
            continue
        booked = {
            uuid
            for uid, hold in snapshot.holds_on.get(name, ())
            if uid not in snapshot.turns
            for uuid in hold.devices
        }
        for model, model_holders in node_holders.by_model.items():
            pool = pools.setdefault(model, Pool())
            here = [uuid for uuid in model_holders.free if uuid not in booked]
            for holder in model_holders.holders:
                if holder.evictable or holder.leaves:
                    here += [uuid for uuid in holder.devices if uuid not in booked]
                if holder.evictable and holder.uid not in snapshot.victims:
                    pool.holders[holder.uid] = holder
                    _add(pool, tenant_of(snapshot.pods[holder.uid], shares), len(holder.devices))
            pool.capacity += len(here)
            pool.largest_node = max(pool.largest_node, len(here))
    for uid, hold in snapshot.turns.items():
        need = snapshot.needs.get(uid)
        if need and need.model in pools:
            _add(pools[need.model], tenant_of(snapshot.pods[uid], shares), len(hold.devices))
    return pools


def _add(pool: Pool, tenant: Tenant, gpus: int) -> None:
    pool.held[tenant] = pool.held.get(tenant, 0) + gpus
