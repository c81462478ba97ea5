from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.policy.policy import Policy, meaning, read_exemption
from booking.policy.reading import read_policy
from booking.policy.resolution import Group, Scope, resolved
from booking.policy.values import ValueMistakeError, Values
from tests.booking.policy.exempting import an_exemption
from tests.fakes.objects import A100, A6000
from tests.fakes.records import day


def limits_of(policy: Policy, *, model: str = A100, now: datetime | None = None, **more: Any) -> Limits:
    return policy.limits_for(**{"user": "alice", "model": model, "now": now or day(0), **more})


def test_without_a_policy_the_manual_applies() -> None:
    assert limits_of(Policy()) == Limits()


def test_the_narrowest_scope_that_sets_a_limit_wins() -> None:
    layers: dict[str, Any] = {}
    found = [limits_of(Policy()).buffer]
    for change in (
        {"defaults": {"buffer": 1}},
        {"pools": {A100: {"buffer": 2}, A6000: {"buffer": 99}}},
        {"groups": (Group(name="g", members=frozenset({"alice"}), scope=Scope(values={"buffer": 3})),)},
        {
            "groups": (
                Group(
                    name="g",
                    members=frozenset({"alice"}),
                    scope=Scope(values={"buffer": 3}, pools={A100: {"buffer": 4}}),
                ),
            )
        },
        {"users": {"alice": Scope(values={"buffer": 5}), "bob": Scope(values={"buffer": 99})}},
        {"users": {"alice": Scope(values={"buffer": 5}, pools={A100: {"buffer": 6}})}},
    ):
        layers.update(change)
        found.append(limits_of(Policy(**layers)).buffer)
    found.append(limits_of(Policy(**layers), exemptions=[an_exemption({"buffer": 7})]).buffer)
    assert found == [0, 1, 2, 3, 4, 5, 6, 7]


def test_limits_that_a_narrow_scope_does_not_set_come_from_a_wider_one() -> None:
    policy = Policy(
        defaults={"cooldown": Duration(3), "buffer": 1},
        users={"alice": Scope(values={"buffer": 2})},
    )
    found = limits_of(policy)
    assert (found.cooldown, found.buffer, found.longest) == (Duration(3), 2, Duration(14))


def test_a_user_is_in_a_group_by_the_policy_or_by_signing_in() -> None:
    policy = Policy(
        groups=(Group(name="staff", members=frozenset({"bob"}), scope=Scope(values={"buffer": 3})),)
    )
    assert limits_of(policy).buffer == 0
    assert limits_of(policy, groups=["staff", "others"]).buffer == 3
    assert limits_of(policy, user="bob").buffer == 3


def test_the_first_of_two_groups_in_the_policy_wins() -> None:
    first = Group(name="first", scope=Scope(values={"buffer": 1}))
    second = Group(name="second", scope=Scope(values={"buffer": 2, "max_active": 4}))
    found = limits_of(Policy(groups=(first, second)), groups=["first", "second"])
    assert (found.buffer, found.max_active) == (1, 4)


def test_a_groups_limit_for_a_model_is_narrower_than_another_groups_for_all_models() -> None:
    first = Group(name="first", scope=Scope(values={"buffer": 1}))
    second = Group(name="second", scope=Scope(pools={A100: {"buffer": 2}}))
    policy = Policy(groups=(first, second))
    assert limits_of(policy, groups=["first", "second"]).buffer == 2
    assert limits_of(policy, groups=["first", "second"], model=A6000).buffer == 1


def test_an_exemption_holds_between_its_instants_and_for_its_model() -> None:
    exemptions = [an_exemption({"cooldown": "P0D"}, -1, 1, A100)]
    assert limits_of(Policy(), exemptions=exemptions).cooldown == Duration()
    assert limits_of(Policy(), exemptions=exemptions, model=A6000).cooldown == Duration(14)
    assert limits_of(Policy(), exemptions=exemptions, now=day(-1)).cooldown == Duration()
    assert limits_of(Policy(), exemptions=exemptions, now=day(1)).cooldown == Duration(14)
    assert limits_of(Policy(), exemptions=exemptions, now=day(-2)).cooldown == Duration(14)


def test_an_exemption_for_the_model_wins_over_one_for_all_and_then_the_newer() -> None:
    of_model = an_exemption({"buffer": 1}, -3, 3, A100)
    older, newer = an_exemption({"buffer": 2, "max_active": 2}, -2, 3), an_exemption({"max_active": 3}, -1, 3)
    found = limits_of(Policy(), exemptions=[newer, of_model, older])
    assert (found.buffer, found.max_active) == (1, 3)


def test_an_exemption_of_another_version_of_the_server_holds_as_far_as_it_is_understood() -> None:
    found = limits_of(Policy(), exemptions=[an_exemption({"teleport": True, "buffer": 3, "cooldown": 9})])
    assert (found.buffer, found.cooldown) == (3, Duration(14))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({}, "at least one limit"),
        ({"cooldwn": "1d"}, "is cooldown meant"),
        ({"cooldown": 14}, "length of time"),
        ({"buffer": [1]}, "whole number"),
        ({"scope": {}}, "one of user, model"),
        ({"max_active": 0}, "max_active is between 1"),
        ({"horizon": [None]}, "length of time"),
        ({"shortest": "20d", "longest": "10d"}, "not over its longest"),
    ],
)
def test_a_nonsensical_exemption_is_refused(written: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueMistakeError, match=message):
        read_exemption(written)


def test_an_exemption_may_set_only_the_shortest_or_only_the_longest() -> None:
    assert read_exemption({"longest": "12h", "horizon": None}) == {
        "longest": Duration(0, 43200),
        "horizon": None,
    }
    found = limits_of(Policy(), exemptions=[an_exemption({"longest": "PT12H"})])
    assert (found.shortest, found.longest) == (Duration(0, 43200), Duration(0, 43200))
    found = limits_of(Policy(), exemptions=[an_exemption({"shortest": "P20D"})])
    assert (found.shortest, found.longest) == (Duration(20), Duration(20))


def test_the_version_differs_exactly_when_the_meaning_differs() -> None:
    first = read_policy("defaults: {cooldown: 14d}\nusers: {bob: {buffer: 1}, alice: {}}")
    same = read_policy("# a comment\nusers: {alice: {}, bob: {buffer: 1}}\ndefaults: {cooldown: P2W}\n")
    assert first.version == same.version
    versions = {
        first.version,
        read_policy("defaults: {cooldown: 336h}").version,
        read_policy("zone: Europe/Stockholm").version,
        read_policy("groups: {a: {}, b: {}}").version,
        read_policy("groups: {b: {}, a: {}}").version,
        Policy().version,
    }
    assert len(versions) == 6


def test_programs_get_a_policy_as_a_file_could_contain_it() -> None:
    policy = Policy(
        defaults={"cooldown": Duration(3)}, groups=(Group(name="g", members=frozenset({"b", "a"})),)
    )
    shown = msgspec.json.decode(msgspec.json.encode(meaning(policy)))
    assert shown["defaults"] == {"cooldown": "P3D"}
    assert shown["groups"] == [{"name": "g", "members": ["a", "b"], "limits": {}, "pools": {}}]


SPANS = st.builds(Duration, st.integers(0, 30), st.sampled_from([0, 3600, 43200])).filter(bool)
LAYERS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "buffer": st.integers(0, 5),
            "shortest": SPANS,
            "longest": SPANS,
            "cooldown": SPANS,
            "horizon": st.none() | SPANS,
            "max_active": st.integers(1, 4),
        },
    ),
    max_size=6,
)


@given(LAYERS)
def test_the_narrowest_scope_that_sets_a_limit_always_wins(layers: list[Values]) -> None:
    found = resolved(layers)
    for limit in ("buffer", "cooldown", "horizon", "max_active"):
        values = [layer[limit] for layer in layers if limit in layer]
        assert getattr(found, limit) == (values[-1] if values else getattr(Limits(), limit))
    assert found.shortest.nominal <= found.longest.nominal
    last = next((layer for layer in reversed(layers) if layer.keys() & {"shortest", "longest"}), {})
    for limit in last.keys() & {"shortest", "longest"}:
        if limit == "shortest" or "shortest" not in last:
            assert getattr(found, limit) == last[limit]
