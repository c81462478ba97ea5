from datetime import datetime
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.policy.policy import Policy, meaning
from booking.policy.reading import read_policy
from booking.policy.resolution import Group, Scope, resolved
from booking.policy.values import Values
from tests.booking.policy.exempting import an_exemption
from tests.fakes.objects import A100
from tests.fakes.records import day


def limits_of(policy: Policy, *, model: str = A100, now: datetime | None = None, **more: Any) -> Limits:
    return policy.limits_for(**{"user": "alice", "model": model, "now": now or day(0), **more})


def test_a_user_is_in_a_group_by_the_policy_or_by_signing_in() -> None:
    policy = Policy(
        groups=(Group(name="staff", members=frozenset({"bob"}), scope=Scope(values={"buffer": 3})),)
    )
    assert limits_of(policy).buffer == 0
    assert limits_of(policy, groups=["staff", "others"]).buffer == 3
    assert limits_of(policy, user="bob").buffer == 3


def test_an_exemption_of_another_version_of_the_server_holds_as_far_as_it_is_understood() -> None:
    found = limits_of(Policy(), exemptions=[an_exemption({"teleport": True, "buffer": 3, "cooldown": 9})])
    assert (found.buffer, found.cooldown) == (3, Duration(14))


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
