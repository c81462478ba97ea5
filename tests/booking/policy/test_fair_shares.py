"""The part ``fair_shares`` of a policy: what is accepted, and what is refused with line and key."""

from fractions import Fraction
from pathlib import Path

import pytest

from booking.controller.__main__ import SHARES_OFF
from booking.durations import Duration
from booking.policy.fair_shares import FairShares, Mode, ShareGroup, Standing
from booking.policy.policy import Policy, meaning
from booking.policy.reading import read_policy
from booking.policy.yaml_nodes import PolicyError
from booking.policy_file import PolicyFile
from cluster.fake.clock import FakeClock
from tests.fakes.objects import EPOCH


def refused(text: str) -> list[str]:
    with pytest.raises(PolicyError) as error:
        read_policy(text)
    return str(error.value).splitlines()


def test_every_key_is_read() -> None:
    found = read_policy("""
fair_shares:
  mode: reclaim
  reclaim_after: PT0S
  min_runtime: 1h
  turn: none
  evictions_per_day: 2
  worth: 0.5
  turn_loss: none
  groups:
    vision: {weight: 2, quota: {NVIDIA A100: 4}, members: [alice], kubernetes_groups: [v], namespaces: [w]}
  users: {bob: {weight: 0.5, limit: {"*": 8}}}
  values: {NVIDIA-A100: 3}
""").fair_shares
    assert found == FairShares(
        mode="reclaim",
        reclaim_after=Duration(),
        min_runtime=Duration(seconds=3600),
        turn=None,
        evictions_per_day=2,
        worth=Fraction(1, 2),
        turn_loss=None,
        groups=(
            ShareGroup(
                name="vision",
                standing=Standing(weight=Fraction(2), quota={"NVIDIA-A100": 4}),
                members=frozenset({"alice"}),
                kubernetes_groups=frozenset({"v"}),
                namespaces=frozenset({"w"}),
            ),
        ),
        users={"bob": Standing(weight=Fraction(1, 2), limit={"*": 8})},
        values={"NVIDIA-A100": 3},
    )


def test_every_mistake_has_its_line_and_key() -> None:
    wrong = refused("""fair_shares:
  mode: true
  min_runtime: 48h
  turn: 10m
  evictions_per_day: 0
  worth: -1
  turn_loss: 1e5
  claim: 1
  groups:
    a: {weight: 0, members: [alice]}
    b: {quota: {m: 4}, limit: {"*": 3}, members: [alice]}
  users: {bob: {quota: {m: -1}}}
  values: {m: 0}
""")
    assert [one.partition(":")[0] for one in wrong] == [
        "Line 2, fair_shares.mode",
        "Line 3, fair_shares.min_runtime",
        "Line 4, fair_shares.turn",
        "Line 5, fair_shares.evictions_per_day",
        "Line 6, fair_shares.worth",
        "Line 7, fair_shares.turn_loss",
        "Line 8, fair_shares.claim",
        "Line 9, fair_shares.groups",
        "Line 10, fair_shares.groups.a.weight",
        "Line 11, fair_shares.groups.b",
        "Line 12, fair_shares.users.bob.quota.m",
        "Line 13, fair_shares.values.m",
    ]


def test_a_turn_is_not_shorter_than_what_a_pod_may_run_undisturbed() -> None:
    assert len(refused("fair_shares: {turn: 1h, min_runtime: 2h}")) == 1


@pytest.mark.parametrize("text", ["", "fair_shares: {min_runtime: 1h}"])
def test_without_a_mode_free_gpus_are_given_in_order_and_everybody_weighs_the_same(text: str) -> None:
    found = read_policy(text).fair_shares
    assert (found.effective(maia=False), found.users, found.groups) == ("order", {}, ())


@pytest.mark.parametrize(("written", "maia", "mode"), [(None, True, "off"), ("order", True, "order")])
def test_maias_users_leave_for_bookings_alone_unless_an_administrator_says_otherwise(
    written: Mode | None, mode: Mode, *, maia: bool
) -> None:
    assert FairShares(mode=written).effective(maia=maia) == mode


def test_other_shares_make_another_policy() -> None:
    changed = Policy(fair_shares=FairShares(worth=Fraction(1, 3)))
    assert changed.version != Policy().version
    assert meaning(changed)["fair_shares"]["worth"] == "1/3"


def test_a_file_is_followed_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    path, clock = tmp_path / "policy.yaml", FakeClock(EPOCH)
    file = PolicyFile(path, clock, invalid=SHARES_OFF)
    assert file.current().fair_shares.mode == "off"
    path.write_text("fair_shares: {mode: reclaim}")
    file.reconcile()
    assert (file.current().fair_shares.mode, file.problem()) == ("reclaim", None)
    path.write_text("fair_shares: {mode: all}")
    file.reconcile()
    assert file.current().fair_shares.mode == "reclaim"
    assert "fair_shares.mode" in str(file.problem())
    path.write_text("zone: UTC")
    file.reconcile()
    assert file.current().fair_shares == FairShares()


@pytest.mark.parametrize(
    ("key", "what"),
    [("members", "user"), ("kubernetes_groups", "Kubernetes group"), ("namespaces", "namespace")],
)
def test_nobody_is_in_two_groups(key: str, what: str) -> None:
    text = f"fair_shares: {{groups: {{one: {{{key}: [x]}}, other: {{{key}: [x]}}}}}}"
    assert f"The {what} 'x' is in the groups 'one' and 'other'" in "\n".join(refused(text))
