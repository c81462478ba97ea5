from datetime import timedelta

from cluster.decide.ledger.liveness import UNRESPONSIVE_AFTER, Liveness
from cluster.objects.nodes import Lease
from tests.fakes.objects import EPOCH, a_lease


def seen(liveness: Liveness, lease: Lease, *, monotonic: float, skew: float = 0.0) -> None:
    """The reader's clocks: the monotonic one shows 1000 at EPOCH."""
    now = EPOCH + timedelta(seconds=monotonic - 1000 + skew)
    liveness.apply_lease(lease, monotonic=monotonic, now=now)


def test_an_agent_without_lease_was_never_seen() -> None:
    assert Liveness().state("n0", monotonic=0.0) == "unseen"


def test_an_agent_is_alive_until_75_seconds_without_renewal() -> None:
    liveness = Liveness()
    seen(liveness, a_lease("n0"), monotonic=1000)

    assert liveness.state("n0", monotonic=1000 + UNRESPONSIVE_AFTER - 1) == "alive"
    assert liveness.state("n0", monotonic=1000 + UNRESPONSIVE_AFTER) == "unresponsive"


def test_at_first_sight_the_age_is_taken_from_the_lease() -> None:
    liveness = Liveness()

    seen(liveness, a_lease("n0"), monotonic=1070)

    assert liveness.state("n0", monotonic=1074) == "alive"
    assert liveness.state("n0", monotonic=1075) == "unresponsive"


def test_a_renewal_counts_from_when_it_is_seen_whatever_the_wall_clock_says() -> None:
    liveness = Liveness()
    seen(liveness, a_lease("n0"), monotonic=1000, skew=3600)
    assert liveness.state("n0", monotonic=1000) == "unresponsive"

    seen(liveness, a_lease("n0", renewed=EPOCH + timedelta(seconds=30), version=2), monotonic=1030, skew=3600)

    assert liveness.state("n0", monotonic=1030) == "alive"


def test_an_agent_whose_clock_is_set_back_is_still_alive() -> None:
    liveness = Liveness()
    seen(liveness, a_lease("n0"), monotonic=1000)

    for step in range(1, 10):
        set_back = EPOCH + timedelta(seconds=10 * step - 600)
        seen(liveness, a_lease("n0", renewed=set_back, version=1 + step), monotonic=1000 + 10 * step)

    assert liveness.state("n0", monotonic=1090) == "alive"


def test_the_same_renewal_seen_again_is_no_new_sign_of_life() -> None:
    liveness = Liveness()
    seen(liveness, a_lease("n0"), monotonic=1000)

    seen(liveness, a_lease("n0"), monotonic=1060)

    assert liveness.state("n0", monotonic=1080) == "unresponsive"


def test_a_lease_from_the_future_counts_from_now() -> None:
    liveness = Liveness()

    seen(liveness, a_lease("n0", renewed=EPOCH + timedelta(hours=1)), monotonic=1000)

    assert liveness.state("n0", monotonic=1074) == "alive"
    assert liveness.state("n0", monotonic=1075) == "unresponsive"


def test_an_agent_that_says_goodbye_is_stopping_and_its_successor_is_alive() -> None:
    liveness = Liveness()
    seen(liveness, a_lease("n0", stopping=True), monotonic=1000)
    assert liveness.state("n0", monotonic=1001) == "stopping"

    seen(liveness, a_lease("n0", renewed=EPOCH + timedelta(seconds=5), version=2), monotonic=1005)

    assert liveness.state("n0", monotonic=1006) == "alive"


def test_an_older_state_after_the_goodbye_changes_nothing() -> None:
    liveness = Liveness()
    seen(liveness, a_lease("n0", stopping=True, version=2), monotonic=1000)

    seen(liveness, a_lease("n0", version=1), monotonic=1001)

    assert liveness.state("n0", monotonic=1002) == "stopping"


def test_a_deleted_lease_is_forgotten() -> None:
    liveness = Liveness()
    seen(liveness, a_lease("n0"), monotonic=1000)

    liveness.forget_lease("gpu-node-n0")

    assert liveness.state("n0", monotonic=1000) == "unseen"
    assert liveness.nodes() == ()


def test_leases_of_others_are_ignored() -> None:
    liveness = Liveness()

    seen(liveness, Lease(metadata=a_lease("n0").metadata), monotonic=1000)
    liveness.forget_lease("somebody-else")

    assert liveness.nodes() == ()
