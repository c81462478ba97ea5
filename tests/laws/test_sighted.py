"""L1 of claims by what lies on a node."""

from collections.abc import Mapping

import pytest

from deviceplugin.dra.prepared import PreparedClaim, PreparedDevice
from tests.laws.claim_states import Believed
from tests.laws.sighted import Look, wrongs

SIZE = 80_000
Given = Mapping[str, tuple[str, int]]
"""Pod, which is its claim, too -> its device, and MiB of it."""


def look(
    seen: dict[str, str],
    record: Given,
    believed: dict[str, str] | None = None,
    *,
    ended: str = "",
    is_by_claims: bool = True,
) -> list[str]:
    """What is wrong where pods have devices as seen, recorded and believed: by default as recorded."""
    before = {device: frozenset(pods) for device, pods in seen.items()}
    claims = [
        PreparedClaim(pod, "default", pod, (PreparedDevice("gpu", device, device, memory=memory),))
        for pod, (device, memory) in record.items()
    ]
    believed = {pod: device for pod, (device, _) in record.items()} if believed is None else believed
    found = Look(
        before=before,
        record={claim.uid: claim for claim in claims},
        believed={pod: Believed(frozenset({pod}), frozenset({one})) for pod, one in believed.items()},
        after={device: pods - {ended} for device, pods in before.items()},
        sizes={"gpu-0": SIZE},
        is_by_claims=is_by_claims,
    )
    return list(wrongs(found))


def test_whole_devices_and_shares_that_fit_are_right() -> None:
    assert not look(
        {"gpu-0": "ab", "gpu-1": "c"}, {"a": ("gpu-0", 1), "b": ("gpu-0", SIZE - 1), "c": ("gpu-1", 0)}
    )


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (
            {"a": ("gpu-0", 1), "b": ("gpu-0", SIZE)},
            "80001 MiB of gpu-0 are prepared for default/a and default/b",
        ),
        ({"a": ("gpu-0", 0), "b": ("gpu-0", 1)}, "one of them has all of it"),
        ({"a": ("gpu-0", SIZE + 1)}, "which has 80000"),
    ],
    ids=["sum", "whole", "one"],
)
def test_more_than_a_device_has_is_noticed_also_where_no_container_runs(record: Given, words: str) -> None:
    (wrong,) = look({}, record)
    assert words in wrong


def test_two_pods_with_one_device_are_noticed_while_both_have_it() -> None:
    record = {"a": ("gpu-0", 0)}
    both = {"a": "gpu-0", "b": "gpu-0"}
    assert look({"gpu-0": "ab"}, record, both) == ["gpu-0 is in pods a and b."]
    assert look({"gpu-0": "ab"}, {}, {}, is_by_claims=False) == ["gpu-0 is in pods a and b."]
    assert not look({"gpu-0": "ab"}, record, ended="b")


def test_what_no_record_has_and_what_the_kubelet_has_not_prepared_are_noticed() -> None:
    (wrong,) = look({"gpu-0": "a"}, {}, {"a": "gpu-0"})
    assert "not prepared" in wrong
    (wrong,) = look({"gpu-0": "a"}, {"a": ("gpu-0", 0)}, {"a": "gpu-1"})
    assert "the kubelet" in wrong
    assert not look({"gpu-0": "a"}, {}, {}, is_by_claims=False)


def test_pods_of_one_claim_may_have_its_device_together() -> None:
    seen = {"gpu-0": frozenset("ab")}
    claim = PreparedClaim("c", "default", "c", (PreparedDevice("gpu", "gpu-0", "gpu-0"),))
    believed = {"c": Believed(frozenset("ab"), frozenset({"gpu-0"}))}
    assert not [*wrongs(Look(before=seen, record={"c": claim}, believed=believed, after=seen, sizes={}))]
