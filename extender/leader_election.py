"""Which check decides whether this extender leads, by its settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from cluster import names
from cluster.kube.interface import Kube
from cluster.kube.leader_election import LeaderElectionTiming, LeaderElector
from cluster.process.clock import Clock
from cluster.process.loops import Body
from cluster.process.probes import Check
from extender.existing import OwnLease
from extender.leadership import Leads, SchedulerLeads, always, own_prefix
from extender.settings import Settings
from extender.state.cluster_state import ClusterState

TIMING: Final = LeaderElectionTiming(duration=10, renew_deadline=7.0, retry=1.0)
"""Nothing is scheduled while a dead leader's Lease runs out; kube-scheduler's usual 15 s are its own."""


@dataclass(frozen=True, slots=True)
class Leading:
    """Whether we lead, which is asked before each post; and why we answer nothing, which each verb asks."""

    leads: Leads
    unready_reason: Check = lambda: None
    threads: Mapping[str, Body] = field(default_factory=dict)
    """Name -> the body of a thread that it needs."""


def leadership(
    settings: Settings,
    kube: Kube,
    state: ClusterState,
    *,
    clock: Clock,
    unfit: Sequence[Check] = (),
) -> Leading:
    """Choose how leadership is determined.

    Args:
        settings: say whose Lease it is.
        kube: the API server.
        state: the cache, which follows the Leases.
        clock: for the Lease.
        unfit: in mode ``existing``, why we could decide nothing as leader, while another replica might.
    """
    if not settings.leader_election:
        return Leading(always)
    if settings.mode == "existing":
        return _own_lease(settings, kube, clock=clock, unfit=unfit)
    prefix = settings.leader_prefix or own_prefix()
    leads = SchedulerLeads(
        kube, state, clock, namespace=settings.namespace, lease=settings.leader_lease, prefix=prefix
    )
    return Leading(leads)


def _own_lease(settings: Settings, kube: Kube, *, clock: Clock, unfit: Sequence[Check]) -> Leading:
    prefix = settings.leader_prefix or own_prefix()
    elector = LeaderElector(
        kube,
        clock,
        name=names.EXTENDER_LEASE,
        namespace=settings.namespace,
        holder=f"{prefix}{uuid4()}",
        place=prefix.rstrip("_"),
        timing=TIMING,
        # Checks that are added later count as well.
        unfit=lambda: next((why for check in unfit if (why := check())), None),
    )
    lease = OwnLease(elector.leads, clock)
    return Leading(lease.leads, lease.unready_reason, {"elector": elector.run, "leading": lease.run})
