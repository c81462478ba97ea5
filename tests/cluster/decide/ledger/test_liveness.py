from datetime import timedelta

import msgspec
import pytest

from cluster.decide.ledger.liveness import UNRESPONSIVE_AFTER, Liveness
from cluster.objects.nodes import Lease
from tests.fakes.objects import EPOCH, a_lease


def seen(liveness: Liveness, lease: Lease, *, monotonic: float, skew: float = 0.0) -> None:
    """The reader's clocks: the monotonic one shows 1000 at EPOCH."""
    now = EPOCH + timedelta(seconds=monotonic - 1000 + skew)
    liveness.apply_lease(lease, monotonic=monotonic, now=now)


def test_an_agent_without_a_lease_was_never_seen() -> None:
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


def test_a_renewal_counts_from_when_it_is_seen_whatever_the_wall_clock_shows() -> None:
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


def test_an_agent_that_releases_its_lease_is_stopping_and_its_successor_is_alive() -> None:
    liveness = Liveness()
    seen(liveness, a_lease("n0", stopping=True), monotonic=1000)
    assert liveness.state("n0", monotonic=1001) == "stopping"

    seen(liveness, a_lease("n0", renewed=EPOCH + timedelta(seconds=5), version=2), monotonic=1005)

    assert liveness.state("n0", monotonic=1006) == "alive"


def test_an_older_state_after_the_release_changes_nothing() -> None:
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


# --- when the state changes by time alone ------------------------------------------------------------


def renewed(
    seconds: float = 0, *, version: int = 1, holder: str | None = None, uid: str = "lease-n0"
) -> Lease:
    """A renewal whose ``renewTime`` is this long after EPOCH."""
    lease = a_lease("n0", renewed=EPOCH + timedelta(seconds=seconds), version=version)
    return msgspec.structs.replace(
        lease,
        metadata=msgspec.structs.replace(lease.metadata, uid=uid),
        spec=msgspec.structs.replace(lease.spec, holder_identity=holder),
    )


def test_an_agent_is_due_75_seconds_after_its_last_renewal() -> None:
    liveness = Liveness()
    seen(liveness, renewed(), monotonic=1000)

    assert liveness.due("n0", monotonic=1000) == 1000 + UNRESPONSIVE_AFTER
    assert liveness.due("n0", monotonic=1000 + UNRESPONSIVE_AFTER - 1) == 1000 + UNRESPONSIVE_AFTER


def test_an_agent_whose_state_no_longer_depends_on_time_is_not_due() -> None:
    liveness = Liveness()
    seen(liveness, renewed(), monotonic=1000)
    seen(liveness, a_lease("n1", stopping=True), monotonic=1000)

    assert liveness.due("n0", monotonic=1000 + UNRESPONSIVE_AFTER) is None
    assert liveness.due("n1", monotonic=1000) is None
    assert liveness.due("unknown", monotonic=1000) is None


@pytest.mark.parametrize(("at", "quiet"), [(1039, set()), (1040, {"n0"}), (1041, {"n0", "n1"})])
def test_an_agent_is_quiet_after_so_many_seconds_even_if_it_is_stopping(at: float, quiet: set[str]) -> None:
    liveness = Liveness()
    seen(liveness, renewed(), monotonic=1000)
    seen(liveness, a_lease("n1", renewed=EPOCH + timedelta(seconds=1), stopping=True), monotonic=1001)

    assert liveness.quiet(40, monotonic=at) == quiet


# --- whose clock counts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("second", "counts_from"),
    [
        (renewed(1, version=2, holder="a"), 1001.0),
        (renewed(300, version=2, holder="a"), 1300.0),
        (renewed(1, version=2, holder="b"), 1300.0),
        (renewed(1, version=2), 1300.0),
        (renewed(1, version=1, holder="a", uid="another"), 1001.0),
        (renewed(250, version=1, holder="a", uid="another"), 1250.0),
        (renewed(0, version=2, holder="b"), 1000.0),
    ],
    ids=[
        "a renewal of long ago that comes late",
        "a renewal in time after a silence",
        "another holder's clock is no evidence",
        "nor is the clock of a missing holder",
        "a Lease that was created again counts from its text",
        "whenever that was",
        "the same instant is no renewal, even by another holder of the Lease",
    ],
)
def test_a_second_state_of_the_lease_counts_from_the_expected_instant(
    second: Lease, counts_from: float
) -> None:
    liveness = Liveness()
    seen(liveness, renewed(0, holder="a"), monotonic=1000)

    seen(liveness, second, monotonic=1300)

    renewal = liveness.renewal("n0")
    assert renewal is not None
    assert renewal.at == counts_from
    assert renewal.holder == second.spec.holder_identity


def test_a_renewal_is_measured_from_when_the_one_before_was_first_seen() -> None:
    liveness = Liveness()
    seen(liveness, renewed(0, holder="a"), monotonic=1000)
    seen(liveness, renewed(0, version=2, holder="a"), monotonic=1060)

    seen(liveness, renewed(10, version=3, holder="a"), monotonic=1120)

    renewal = liveness.renewal("n0")
    assert renewal is not None
    assert (renewal.at, renewal.seen) == (1010.0, 1120.0)


# --- who is notified of a changed state --------------------------------------------------------------


@pytest.mark.parametrize(
    ("lease", "at", "turned"),
    [
        (renewed(10, version=2), 1010, False),
        (renewed(0, version=2), 1010, False),
        (renewed(1, version=1), 1010, False),
        (a_lease("n0", renewed=EPOCH + timedelta(seconds=10), version=2, stopping=True), 1010, True),
        (renewed(75, version=2), 1075, True),
        (renewed(74, version=2), 1074, False),
        (renewed(-20, uid="another"), 1010, True),
    ],
    ids=[
        "a renewal",
        "the same renewal",
        "the same version",
        "it stops",
        "it comes back",
        "just in time",
        "a new Lease that is older by its text",
    ],
)
def test_a_lease_is_reported_only_where_the_agent_s_state_can_have_changed(
    lease: Lease, *, at: int, turned: bool
) -> None:
    liveness = Liveness()
    seen(liveness, renewed(), monotonic=1000)
    before = liveness.generation

    seen(liveness, lease, monotonic=at)

    assert liveness.changed_since(before) == (["n0"] if turned else [])
    assert (liveness.generation > before) is turned


def test_a_new_and_a_deleted_lease_are_reported_as_changes_of_state() -> None:
    liveness = Liveness()
    seen(liveness, renewed(), monotonic=1000)
    seen(liveness, a_lease("n1"), monotonic=1000)
    assert liveness.changed_since(0) == ["n1", "n0"]
    before = liveness.generation

    for _ in range(2):
        liveness.forget_lease("gpu-node-n0")
    liveness.forget_lease("gpu-node-unknown")
    liveness.forget_lease("somebody-else")

    assert liveness.changed_since(before) == ["n0"]
    assert liveness.generation == before + 1


def test_a_state_can_change_for_other_reasons_than_a_lease() -> None:
    liveness = Liveness()

    liveness.note_change("n3")

    assert liveness.changed_since(0) == ["n3"]
    assert liveness.nodes() == ()


def test_a_copy_does_not_follow_later_leases() -> None:
    liveness = Liveness()
    seen(liveness, renewed(), monotonic=1000)

    copy = liveness.copy()
    seen(liveness, a_lease("n1"), monotonic=1000)
    liveness.forget_lease("gpu-node-n0")

    assert copy.nodes() == ("n0",)
    assert copy.state("n0", monotonic=1000) == "alive"
    assert liveness.nodes() == ("n1",)


def test_nodes_with_a_lease_are_named_in_order() -> None:
    liveness = Liveness()

    for node in ("n2", "n0", "n1"):
        seen(liveness, a_lease(node), monotonic=1000)

    assert liveness.nodes() == ("n0", "n1", "n2")
    assert liveness.renewal("unknown") is None
