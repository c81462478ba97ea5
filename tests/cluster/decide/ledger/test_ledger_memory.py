"""What the ledger remembers of pods that are gone, of binds that are not seen yet, and of conflicts."""

import pytest

from cluster.decide.ledger import WHOLE, AssumedBind, Ledger
from cluster.decide.ledger.ledger import TOMBSTONES
from tests.cluster.decide.ledger.test_ledger import G0, G1, G2, a_ledger, free
from tests.fakes.objects import PodBuilder, a_pod

BOUND = a_pod().asks(1).on("n0", {"main": (G0,)})
WAITING = a_pod().asks(1)


# --- tombstones ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "counts"), [(11, False), (12, False), (13, True)])
def test_only_a_newer_state_than_its_deletion_brings_a_pod_back(*, version: int, counts: bool) -> None:
    ledger = a_ledger()
    ledger.forget_pod("uid-p", version="12")

    assert ledger.apply_pod(BOUND.at(version).obj) is counts

    assert ledger.knows("uid-p") is counts
    assert (ledger.view("n0").held == {G0: WHOLE}) is counts


@pytest.mark.parametrize("again", ["9", None])
def test_an_older_deletion_after_a_newer_one_changes_nothing(again: str | None) -> None:
    ledger = a_ledger()
    ledger.forget_pod("uid-p", version="12")

    ledger.forget_pod("uid-p", version=again)

    assert not ledger.apply_pod(BOUND.at(11).obj)


def test_the_newest_deletion_of_a_pod_counts() -> None:
    ledger = a_ledger()
    ledger.forget_pod("uid-p", version="9")

    ledger.forget_pod("uid-p", version="12")

    assert not ledger.apply_pod(BOUND.at(11).obj)


def test_the_newest_deletions_are_remembered_up_to_the_number_of_tombstones() -> None:
    ledger = a_ledger()
    ledger.forget_pod("uid-p", version="1")
    ledger.forget_pod("uid-again", version="1")
    for number in range(TOMBSTONES - 2):
        ledger.forget_pod(f"uid-{number}", version="1")
    ledger.forget_pod("uid-again", version="2")
    assert not ledger.apply_pod(BOUND.obj)

    ledger.forget_pod("uid-one-too-many", version="3")
    ledger.forget_pod("uid-two-too-many", version="3")

    assert ledger.apply_pod(BOUND.obj)
    assert not ledger.apply_pod(a_pod("again").obj)
    assert ledger.apply_pod(a_pod("0").obj)
    assert not ledger.apply_pod(a_pod("1").obj)


# --- binds that are not seen yet ------------------------------------------------------------------------


def assumed(version: int = 5) -> Ledger:
    ledger = a_ledger()
    ledger.assume(WAITING.at(version).obj, "n0", {"main": (G0,)})
    return ledger


def test_an_assumed_bind_can_be_looked_up_until_it_is_seen() -> None:
    ledger = assumed()
    expected = AssumedBind(pod=WAITING.at(5).obj, node="n0", assignment={"main": (G0,)})
    assert ledger.assumption("uid-p") == expected
    assert ledger.assumed == {"uid-p": expected}

    ledger.apply_pod(BOUND.at(6).obj)

    assert ledger.assumption("uid-p") is None
    assert ledger.assumed == {}


def test_an_assumed_bind_does_not_make_a_pod_known() -> None:
    ledger = assumed()

    assert not ledger.knows("uid-p")
    assert ledger.pods == frozenset()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ends_before_its_bind_is_seen_holds_nothing(phase: str) -> None:
    ledger = assumed()

    ledger.apply_pod(WAITING.at(6).ended(phase).obj)

    assert ledger.assumed == {}
    assert ledger.view("n0").held == {}


def test_a_terminating_pod_keeps_its_assumed_bind_until_it_is_gone() -> None:
    ledger = assumed()

    ledger.apply_pod(WAITING.at(6).terminating().obj)

    assert ledger.view("n0").held == {G0: WHOLE}


@pytest.mark.parametrize(("version", "held"), [("4", {G0: WHOLE}), ("5", {}), ("6", {}), (None, {})])
def test_a_list_that_is_older_than_the_decision_does_not_take_the_bind_back(
    version: str | None, held: dict[str, int]
) -> None:
    ledger = assumed(version=5)

    ledger.forget_pod("uid-p", version=version)

    assert ledger.view("n0").held == held


def test_a_bind_can_be_assumed_for_a_pod_deleted_at_an_unknown_version() -> None:
    ledger = a_ledger()
    ledger.forget_pod("uid-p")

    ledger.assume(WAITING.obj, "n0", {"main": (G0,)})

    assert ledger.view("n0").held == {G0: WHOLE}


def test_taking_back_a_bind_that_was_never_assumed_changes_nothing() -> None:
    ledger = a_ledger()
    ledger.apply_pod(BOUND.obj)

    ledger.forget_assumed("uid-p")
    ledger.forget_assumed("unknown")

    assert free(ledger.view("n0")) == [G1, G2, "GPU-n0-3"]


def test_changing_the_returned_assumed_binds_does_not_change_the_ledger() -> None:
    ledger = assumed()

    ledger.assumed.clear()
    ledger.holds.clear()

    assert set(ledger.assumed) == {"uid-p"}


@pytest.mark.parametrize(
    ("builder", "devices"), [(BOUND, [G0]), (WAITING.on("n0"), [])], ids=["assigned", "unknown"]
)
def test_the_holding_of_a_pod_can_be_looked_up(builder: PodBuilder, devices: list[str]) -> None:
    ledger = a_ledger()
    assert ledger.holding("uid-p") is None

    ledger.apply_pod(builder.obj)

    holding = ledger.holding("uid-p")
    assert holding is not None
    assert (holding.node, list(holding.devices)) == ("n0", devices)


# --- conflicts ------------------------------------------------------------------------------------------


def named_twice(*devices: str) -> Ledger:
    """Two pods that name these devices."""
    ledger = a_ledger()
    for name in ("p", "q"):
        ledger.apply_pod(a_pod(name).asks(len(devices)).on("n0", {"main": devices}).obj)
    return ledger


def test_l1_without_conflicts_none_is_counted() -> None:
    ledger = a_ledger()
    ledger.apply_pod(BOUND.obj)
    ledger.view("n0")

    assert ledger.conflicts_seen == {}


@pytest.mark.parametrize("devices", [(G0,), (G0, G1)])
def test_l1_a_device_that_two_pods_name_is_counted_once_however_often_it_is_seen(
    devices: tuple[str, ...],
) -> None:
    ledger = named_twice(*devices)
    ledger.view("n0")

    ledger.apply_pod(a_pod("r").asks(1).on("n0", {"main": (G2,)}).obj)
    ledger.view("n0")

    assert ledger.conflicts_seen == {"n0": len(devices)}


def test_l1_a_conflict_is_counted_again_when_it_comes_back() -> None:
    ledger = named_twice(G0)
    ledger.view("n0")
    ledger.forget_pod("uid-q")
    ledger.view("n0")

    ledger.apply_pod(a_pod("q").asks(1).on("n0", {"main": (G0,)}).obj)
    ledger.view("n0")

    assert ledger.conflicts_seen == {"n0": 2}


def test_l1_only_the_new_one_of_several_conflicts_is_counted() -> None:
    ledger = named_twice(G0)
    ledger.view("n0")

    for name in ("r", "s"):
        ledger.apply_pod(a_pod(name).asks(1).on("n0", {"main": (G1,)}).obj)
    ledger.view("n0")

    assert ledger.conflicts_seen == {"n0": 2}
    ledger.conflicts_seen.clear()
    assert ledger.conflicts_seen == {"n0": 2}
