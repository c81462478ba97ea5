"""Which configuration counts for a device, and which is refused."""

from typing import Any

import msgspec
import pytest

from cluster import names
from cluster.decide.claims.configuration import configured, problem_of
from cluster.objects.claims import Configuration

DRIVER = names.DRA_DRIVER
TURNS: Any = {"kind": "GpuConfig", "sharing": {"strategy": "TimeSlicing"}}
DEFAULT: Any = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Default"}}
MPS: Any = {"kind": "GpuConfig", "sharing": {"strategy": "MPS", "mpsConfig": {"x": 50}}}
MIG: Any = {"kind": "MigDeviceConfig", "sharing": {"strategy": "MPS"}}


def entry(parameters: Any, *requests: str, source: str = "FromClass", driver: str = DRIVER) -> Configuration:
    given = {"apiVersion": "resource.nvidia.com/v1beta1", **parameters}
    body = {"source": source, "requests": requests, "opaque": {"driver": driver, "parameters": given}}
    return msgspec.convert(body, Configuration)


def own(parameters: Any, *requests: str) -> Configuration:
    return entry(parameters, *requests, source="FromClaim")


def kind_and_strategy(found: Any) -> tuple[str, str] | None:
    return found and (found["kind"], found["sharing"]["strategy"])


@pytest.mark.parametrize(
    ("entries", "counts"),
    [
        ([], None),
        ([entry(MPS, driver="nic.example.com")], None),
        ([entry(MPS, "gpu")], MPS),
        ([entry(MPS, "other")], None),
        ([entry(MPS, "gpu"), own(TURNS)], TURNS),
        ([own(TURNS), entry(MPS, "gpu")], TURNS),
        ([entry(TURNS, "gpu"), own(MPS, "gpu/large")], MPS),
        ([entry(TURNS, "gpu"), own(MPS, "gpu/small")], TURNS),
        ([own(MPS, "gpu"), own(TURNS, "gpu")], TURNS),
        ([entry(TURNS), own(MIG)], TURNS),
        ([entry(TURNS), own(MIG, "gpu/large")], MIG),
    ],
)
def test_the_last_one_counts_and_the_claims_are_the_last(entries: list[Configuration], counts: Any) -> None:
    found = configured("gpu/large", entries, DRIVER, is_mig=False)
    assert kind_and_strategy(found) == kind_and_strategy(counts)


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"kind": "GpuConfig"}, None),
        (TURNS, None),
        ({"kind": "GpuConfig", "sharing": DEFAULT}, None),
        ({"kind": "GpuConfig", "sharing": {**DEFAULT, "mpsConfig": {"x": 1}}}, "with mpsConfig"),
        (MPS, "gives no sharing by MPS with mpsConfig"),
        ({"kind": "GpuConfig", "sharing": "all"}, "no sharing 'all'"),
        ({"kind": "GpuConfig", "migEnabled": True}, "gives no migEnabled of a GpuConfig"),
        ({"kind": "MigDeviceClaimParameters", "profile": "3g.40gb"}, "no configuration of kind MigDevice"),
        ({"kind": "VfioDeviceConfig"}, "no configuration of kind VfioDeviceConfig"),
        (MIG, "A MigDeviceConfig is configured for a whole GPU"),
    ],
)
def test_what_is_not_given_is_said(parameters: Any, why: str | None) -> None:
    message = problem_of(parameters, DRIVER, is_mig=False)
    assert (message is None) if why is None else (why in (message or ""))
