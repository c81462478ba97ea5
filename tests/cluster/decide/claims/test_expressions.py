"""Expressions of claims, as kube-scheduler judges them."""

import pytest

from cluster import names
from cluster.decide.claims.expressions import judged

DRIVER = names.DRA_DRIVER
DEVICE = {
    "name": "gpu-0",
    "attributes": {
        "type": {"string": "gpu"},
        "productName": {"string": "NVIDIA A100-SXM4-80GB"},
        "index": {"int": 0},
        "migEnabled": {"bool": False},
        "cudaComputeCapability": {"version": "8.0.0"},
        "resource.kubernetes.io/numaNode": {"int": 1},
    },
    "capacity": {"memory": {"value": "85899345920"}},
}
MEMORY = "device.capacity['gpu.nvidia.com'].memory"
OURS = "device.attributes['gpu.nvidia.com']"


@pytest.mark.parametrize(
    "expression",
    [
        f"device.driver == 'gpu.nvidia.com' && {OURS}.type == 'gpu'",
        f"{MEMORY}.compareTo(quantity('60Gi')) >= 0",
        f"{MEMORY}.isGreaterThan(quantity('60Gi')) && !{MEMORY}.isLessThan(quantity('80Gi'))",
        f"{OURS}.productName.lowerAscii().matches('^.*a100.*$')",
        f"{OURS}.cudaComputeCapability.isGreaterThan(semver('7.5.0'))",
        f"{OURS}.cudaComputeCapability.compareTo(semver('10.0.0')) < 0",
        f"{OURS}.cudaComputeCapability.major() == 8",
        f"cel.bind(dra, {OURS}, dra.type == 'gpu' && dra.index < 2)",
        f"{OURS}.?nosuch.orValue('x') == 'x'",
        f"{OURS}.cudaComputeCapability == semver('8.0.0') && {OURS}.cudaComputeCapability != semver('9.0.0')",
        f"{MEMORY} == quantity('80Gi') && {MEMORY}.asInteger() > 80000000000",
        f"{OURS}.type != 1 && 1 == 1.0 && [1, 'x'] == [1, 'x'] && {OURS}.type.size() == size(['a', 2, 'c'])",
        "device.attributes['resource.kubernetes.io'].numaNode == 1",
        "!device.allowMultipleAllocations",
    ],
)
def test_what_kube_scheduler_can_judge_is_judged(expression: str) -> None:
    assert judged(expression, DRIVER, DEVICE) is True


def test_a_device_that_does_not_satisfy_it_is_not_accepted() -> None:
    assert judged(f"{MEMORY}.compareTo(quantity('600Gi')) >= 0", DRIVER, DEVICE) is False


@pytest.mark.parametrize(
    "expression",
    [
        f"{OURS}.nosuch == 'x'",
        "device.attributes['other.example.com'].x == 1",
        f"{MEMORY}.compareTo(semver('1.0.0')) >= 0",
        f"{OURS}.productName",
        *(
            f"{OURS}.cudaComputeCapability{rest}"
            for rest in (
                " == '8.0.0'",
                " != '9.0.0'",
                ".matches('^8')",
                ".startsWith('8')",
                ".contains('8')",
                " >= '7.0.0'",
            )
        ),
        f"string({OURS}.cudaComputeCapability) != ''",
        f"[{OURS}.cudaComputeCapability] == ['8.0.0']",
        f"{MEMORY} != 1",
        f"{MEMORY} > 1",
        f"{MEMORY} == semver('1.0.0')",
        "semver('x') == 'x'",
        "quantity('half') == quantity('half')",
        "nosuch(device)",
        "1 +",
    ],
)
def test_what_it_cannot_evaluate_is_unknown(expression: str) -> None:
    assert judged(expression, DRIVER, DEVICE) is None
