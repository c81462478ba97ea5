"""Ends of claims that come early, or never: their devices are free for others."""

from pathlib import Path

import pytest

from deviceplugin.dra.prepared import PreparedClaim
from tests.deviceplugin.dra.test_prepare import Lab, allocation, refusal


def test_a_claim_that_ends_while_it_is_being_prepared_has_nothing(tmp_path: Path) -> None:
    """Its pod is deleted: the kubelet hangs up, unprepares, and never calls for the claim again."""
    lab = Lab(tmp_path)
    claim = lab.claim("first", allocation("gpu-0"))
    lab.kube.before("GET", lambda: lab.driver.unprepare(claim.uid))
    assert "has ended" in refusal(lab, claim)
    assert lab.driver.held() == frozenset()
    assert isinstance(lab.driver.prepare(claim), PreparedClaim), "for another pod"


def test_of_several_claims_of_a_pod_none_is_prepared_after_its_end(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    claims = [lab.claim(f"claim-{number}", allocation(f"gpu-{number}")) for number in range(2)]
    lab.kube.before("GET", lambda: [lab.driver.unprepare(one.uid) for one in claims])
    lab.driver.prepare_all(claims)
    assert lab.driver.held() == frozenset()
    assert not lab.files()


@pytest.mark.parametrize(
    "afterwards",
    [{}, allocation("gpu-0", pool="node-b"), allocation("gpu-0", driver="nic.example.com")],
    ids=["nowhere", "elsewhere", "of another driver"],
)
def test_a_claim_that_outlives_its_pods_keeps_no_device_that_it_does_not_have(
    tmp_path: Path, afterwards: dict[str, object]
) -> None:
    """The end of a claim that a user has made is lost: the kubelet's record was removed, for example."""
    lab = Lab(tmp_path)
    first, second = lab.claim("first", allocation("gpu-0")), lab.claim("second", allocation("gpu-0"))
    lab.driver.prepare(first)
    lab.knows()
    assert "in use by the claim team/first" in refusal(lab, second), "for the API server it has the device"
    assert lab.claim("first", afterwards) == first
    lab.knows(first)
    assert "in use by the claim team/first" in refusal(lab, second), "for the kubelet it has"
    lab.knows()
    assert isinstance(lab.driver.prepare(second), PreparedClaim)


def test_a_claim_that_gets_its_device_again_while_it_is_looked_at_keeps_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    claims = [lab.claim(f"claim-{number}", allocation(f"gpu-{number}")) for number in range(2)]
    lab.driver.prepare_all(claims)
    lab.knows()
    lab.claim("claim-0", {})
    newcomer = lab.claim("newcomer", allocation("gpu-0"))

    def again() -> None:
        """Another pod gets it once the API server was asked: the kubelet writes that down, and calls."""
        lab.claim("claim-0", allocation("gpu-0"))
        lab.knows(claims[0])
        assert isinstance(lab.driver.prepare(claims[0]), PreparedClaim)

    for rival in (str, str, again):  # the newcomer is read, then each of the two
        lab.kube.before("GET", rival)
    assert "in use by the claim team/claim-0" in refusal(lab, newcomer)
    assert "GPU-0" in lab.driver.held()
