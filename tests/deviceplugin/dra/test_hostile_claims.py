"""Claims that somebody has written to get more than is theirs, or that are not what they were."""

from pathlib import Path
from typing import Any

import pytest

from cluster import names
from cluster.kube.resources import RESOURCE_CLAIMS
from deviceplugin.dra.prepared import PreparedClaim
from tests.deviceplugin.dra.test_prepare import NODE, TEAM, Lab, allocation, refusal

CONFIG = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}


def configured(driver: str = names.DRA_DRIVER, **parameters: Any) -> dict[str, object]:
    return allocation("gpu-0", config=[{"opaque": {"driver": driver, "parameters": parameters}}])


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({**CONFIG, "colour": "red"}, "colour"),
        ({**CONFIG, "colour": False}, "colour"),
        ({**CONFIG, "kind": "VfioDeviceConfig"}, "VfioDeviceConfig"),
        ({}, "None"),
    ],
)
def test_what_nobody_knows_in_a_configuration_is_refused_and_never_ignored(
    tmp_path: Path, parameters: dict[str, Any], told: str
) -> None:
    lab = Lab(tmp_path)
    assert told in refusal(lab, lab.claim("odd", configured(**parameters)))
    assert lab.driver.held() == frozenset()


def test_a_configuration_that_asks_for_nothing_or_is_for_another_driver_is_no_reason(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    for status in (configured(**CONFIG, sharing=None), configured("nic.example.com", colour="red")):
        claim = lab.claim("plain", status)
        assert isinstance(lab.driver.prepare(claim), PreparedClaim)
        assert lab.driver.unprepare(claim.uid) is None


def test_a_claim_that_took_the_name_of_another_before_the_kubelet_asked_is_not_prepared(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path)
    allocated = lab.claim("train", allocation("gpu-0"))
    lab.kube.delete(RESOURCE_CLAIMS, "train", namespace=TEAM)
    again = lab.claim("train", allocation("gpu-1"))
    assert "another one of that name" in refusal(lab, allocated)
    assert isinstance(lab.driver.prepare(again), PreparedClaim)
    assert lab.driver.held() == {"GPU-1"}


def test_an_administrators_access_takes_a_device_from_nobody_and_keeps_nobody_waiting(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path)
    look = {
        "request": "gpu",
        "driver": names.DRA_DRIVER,
        "pool": NODE,
        "device": "gpu-0",
        "adminAccess": True,
    }
    looking = {"allocation": {"devices": {"results": [look]}}}
    first, admin = lab.claim("first", allocation("gpu-0")), lab.claim("admin", looking)
    late = lab.claim("late", allocation("gpu-0"))
    for claim in (first, admin):
        assert isinstance(lab.driver.prepare(claim), PreparedClaim)
    assert lab.driver.unprepare(first.uid) is None
    assert lab.driver.held() == frozenset(), "the administrator's claim holds nothing"
    assert isinstance(lab.driver.prepare(late), PreparedClaim)
    assert lab.driver.unprepare(admin.uid) is None
    assert lab.driver.held() == {"GPU-0"}
