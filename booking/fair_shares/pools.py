"""Who holds how many GPUs of each model without a booking, and how many there are to share. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from booking.eviction.holder import Holder
from booking.eviction.holder_cache import HolderCache
from booking.eviction.snapshot import EvictionSnapshot
from booking.fair_shares.standing import tenant_of
from booking.policy.fair_shares import FairShares
from cluster.decide.fairshare import Tenant
from cluster.objects.hold import Hold


@dataclass(slots=True)
class Pool:
    """The devices of one model."""

    capacity: int = 0
    """Healthy devices of serving nodes that are not for booked pods or pods that never leave."""
    held: dict[Tenant, int] = field(default_factory=dict)
    """Tenant -> devices of its pods without a booking, bound or with a hold."""
    booked: dict[Tenant, int] = field(default_factory=dict)
    """Tenant -> devices of its pods with a booking."""
    holders: dict[str, Holder] = field(default_factory=dict)
    """Uid -> a pod that may be evicted, as far as anything but shares says."""
    largest_node: int = 0
    """Devices of the node that has most."""


class Instant(EvictionSnapshot, Protocol):
    """A snapshot of the reclaimer or of the booking server."""

    @property
    def holds(self) -> Mapping[str, Hold]:
        """Uid of a waiting pod -> the devices that are kept for it."""
        ...


def turns_in(instant: Instant) -> Mapping[str, Hold]:
    """The holds that no booking has given: uid of a pod whose turn it is -> its devices."""
    return {
        uid: hold
        for uid, hold in instant.holds.items()
        if hold.need == "share" and uid not in instant.cover and uid in instant.pods
    }


def pools_of(instant: Instant, holder_cache: HolderCache, shares: FairShares) -> Mapping[str, Pool]:
    """Model -> its pool; of nodes whose agent is alive and that are not cordoned."""
    turns = turns_in(instant)
    leaving = {uid for hold in instant.holds.values() for uid in hold.victims}
    booked = {uuid for uid, hold in instant.holds.items() if uid not in turns for uuid in hold.devices}
    pools: dict[str, Pool] = {}
    model_of: dict[str, str] = {}
    for name, node_holders in holder_cache.at(instant).items():
        if instant.node_snapshots[name][1] != "alive" or node_holders.view.is_cordoned:
            continue
        for model, model_holders in node_holders.by_model.items():
            pool = pools.setdefault(model, Pool())
            here = [uuid for uuid in model_holders.free if uuid not in booked]
            for holder in model_holders.holders:
                if holder.evictable or holder.leaves:
                    here += [uuid for uuid in holder.devices if uuid not in booked]
                stays = holder.evictable and holder.uid not in leaving
                if stays or holder.uid in instant.cover:
                    tenant = tenant_of(instant.pods[holder.uid], shares)
                    _add(pool.held if stays else pool.booked, tenant, len(holder.devices))
                if stays:
                    pool.holders[holder.uid] = holder
            model_of |= dict.fromkeys(here, model)
            pool.capacity += len(here)
            pool.largest_node = max(pool.largest_node, len(here))
    for uid, hold in turns.items():
        its_model = model_of.get(hold.devices[0]) if hold.devices else None
        if its_model is not None:
            _add(pools[its_model].held, tenant_of(instant.pods[uid], shares), len(hold.devices))
    return pools


def _add(amounts: dict[Tenant, int], tenant: Tenant, gpus: int) -> None:
    amounts[tenant] = amounts.get(tenant, 0) + gpus
