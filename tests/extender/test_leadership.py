from datetime import timedelta

import pytest

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import LEASES
from cluster.objects.nodes import Lease
from extender.leadership import SchedulerLeads, always, own_prefix
from extender.state.cluster_state import ClusterState

NAMESPACE = "gpu-booking"
OURS = "host_11111111-1111"


class Election:
    """A scheduler's Lease, and the extender on ``host`` that follows it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.state = ClusterState(self.clock)
        self.leads = SchedulerLeads(
            self.kube,
            self.state,
            self.clock,
            namespace=NAMESPACE,
            lease=names.SCHEDULER_LEASE,
            prefix="host_",
        )

    def renew(self, holder: str = OURS, *, ago: float = 0.0, seconds: int = 15) -> Lease:
        """A scheduler renews the Lease; the extender does not see it yet."""
        renewed = (self.clock.now() - timedelta(seconds=ago)).isoformat()
        meta = {"name": names.SCHEDULER_LEASE, "namespace": NAMESPACE}
        spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed}
        return self.kube.put(LEASES, {"metadata": meta, "spec": spec})

    @property
    def reads(self) -> int:
        """How often the Lease was read by itself."""
        return sum(call.verb == "GET" for call in self.kube.calls)


@pytest.fixture
def election() -> Election:
    return Election()


def test_the_extender_leads_while_its_scheduler_holds_the_lease(election: Election) -> None:
    election.state.of(LEASES).upsert(election.renew())

    assert election.leads()
    election.clock.advance(14)
    assert election.leads()
    assert election.reads == 0


@pytest.mark.parametrize("holder", ["other_2222", "host2_2222", "hos_1", ""])
def test_the_extender_does_not_lead_while_another_scheduler_holds_the_lease(
    election: Election, holder: str
) -> None:
    election.state.of(LEASES).upsert(election.renew(holder))

    assert not election.leads()


def test_l6_no_extender_leads_without_a_lease(election: Election) -> None:
    assert not election.leads()


def test_a_lease_that_we_have_not_seen_is_read_once(election: Election) -> None:
    election.renew()

    assert election.leads()
    assert election.leads()
    assert election.reads == 1


def test_a_scheduler_that_has_just_won_is_recognised_before_the_watch_reports_it(election: Election) -> None:
    election.state.of(LEASES).upsert(election.renew("other_2222"))
    election.renew()

    assert election.leads()


def test_renewals_that_the_watch_has_not_delivered_are_read(election: Election) -> None:
    election.state.of(LEASES).upsert(election.renew())
    election.clock.advance(20)
    election.renew()

    assert election.leads()


def test_a_process_that_was_frozen_does_not_lead_because_of_an_old_event(election: Election) -> None:
    election.state.of(LEASES).upsert(election.renew())
    election.clock.advance(2)
    waiting_in_the_socket = election.renew()
    election.clock.advance(18)
    election.renew("other_2222")

    election.state.of(LEASES).upsert(waiting_in_the_socket)

    assert not election.leads()


def test_l6_an_old_lease_does_not_count_while_the_api_server_is_away(election: Election) -> None:
    election.state.of(LEASES).upsert(election.renew())
    election.kube.down = True

    assert election.leads()
    election.clock.advance(16)
    assert not election.leads()


def test_the_extender_always_leads_without_election() -> None:
    assert always()


def test_our_scheduler_is_recognised_by_the_host_s_name() -> None:
    assert own_prefix().endswith("_")
    assert len(own_prefix()) > 1
