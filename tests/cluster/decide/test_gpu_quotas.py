"""Which quotas of a namespace limit the GPUs of booked pods."""

from typing import Any

import msgspec
import pytest

from cluster import names
from cluster.decide.gpu_quotas import GpuQuota, gpu_quotas
from cluster.objects.resource_quotas import ResourceQuota

FULL = {"hard": {names.GPU_QUOTA: "4"}, "used": {names.GPU_QUOTA: "3"}}


def found(spec: dict[str, Any], status: dict[str, Any] = FULL) -> list[GpuQuota]:
    quota = msgspec.convert({"metadata": {"name": "gpus"}, "spec": spec, "status": status}, ResourceQuota)
    return list(gpu_quotas([quota], names.BOOKED_CLASS))


def of_classes(operator: str, *classes: str) -> dict[str, Any]:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": list(classes)}
    return {"scopeSelector": {"matchExpressions": [expression]}}


@pytest.mark.parametrize(
    ("spec", "applies"),
    [
        ({}, True),
        ({"scopes": ["PriorityClass"]}, True),
        ({"scopes": ["NotTerminating", "NotBestEffort"]}, True),
        ({"scopes": ["Terminating"]}, False),
        ({"scopes": ["BestEffort"]}, False),
        (of_classes("In", names.OPPORTUNISTIC_CLASS), False),
        (of_classes("In", names.OPPORTUNISTIC_CLASS, names.BOOKED_CLASS), True),
        (of_classes("NotIn", names.BOOKED_CLASS), False),
        (of_classes("Exists"), True),
        (of_classes("DoesNotExist"), False),
        (of_classes("In", names.BOOKED_CLASS) | {"scopes": ["Terminating"]}, False),
    ],
)
def test_a_quota_limits_booked_pods_by_its_scopes(spec: dict[str, Any], *, applies: bool) -> None:
    assert found(spec) == ([GpuQuota("gpus", 4, 3)] if applies else [])


def test_a_quota_on_other_resources_or_one_that_cannot_be_read_limits_no_gpu() -> None:
    assert (
        found({}, {"hard": {"pods": "3"}})
        == found({}, {})
        == found({}, {"hard": {names.GPU_QUOTA: "many"}})
        == []
    )
    assert found({}, {"hard": {names.GPU_QUOTA: "2"}}) == [GpuQuota("gpus", 2, 0)]
    assert GpuQuota("gpus", 2, 5).left == 0


def test_a_quota_on_mig_devices_is_one_for_each_profile() -> None:
    mig = f"{names.MIG_RESOURCE_PREFIX}1g.10gb"
    hard = {f"requests.{mig}": "2", names.GPU_QUOTA: "1", mig: "7"}
    both = found({}, {"hard": hard, "used": {f"requests.{mig}": "1"}})
    assert both == [GpuQuota("gpus", 1, 0), GpuQuota("gpus", 2, 1, mig)]
