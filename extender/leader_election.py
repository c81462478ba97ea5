"""Chooses, by the settings, how it is determined whether this extender leads."""

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
"""Shorter than kube-scheduler's usual 15 s: nothing is scheduled until a dead leader's Lease expires."""


@dataclass(frozen=True, slots=True)
class Leading:
    """Whether we lead, which is checked before each post, and why we answer nothing, for each verb."""

    leads: Leads
    unready_reason: Check = lambda: None
    threads: Mapping[str, Body] = field(default_factory=dict)
    """Name -> body of a thread that must run for it."""


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
        settings: have the mode, and name the Lease.
        kube: the API server.
        state: the cache, which follows the Leases.
        clock: for the Lease.
        unfit: for mode ``existing``: why we could decide nothing as the leader although another replica
            could.
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
        instance=prefix.rstrip("_"),
        timing=TIMING,
        # Not evaluated now, so that checks that are added later count, too.
        unfit=lambda: next((why for check in unfit if (why := check())), None),
    )
    lease = OwnLease(elector.leads, clock)
    return Leading(lease.leads, lease.unready_reason, {"elector": elector.run, "leading": lease.run})
