"""Which configuration counts for a device, and which is refused."""

from typing import Any

import msgspec
import pytest

from cluster import names
from cluster.decide.claims.configuration import configured, problem_of, refusal_of_claim, refusals, refused
from cluster.objects.claims import Configuration, RequestedDevices

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


LARGE_TURNS, SMALL_TURNS = own(TURNS, "gpu/large"), own({**TURNS, "kind": "MigDeviceConfig"}, "gpu/small")


@pytest.mark.parametrize(
    ("entries", "whole", "mig"),
    [
        ([], False, False),
        ([own(TURNS)], False, False),
        ([own(MPS)], True, False),
        ([own(MPS, "gpu")], True, False),
        ([own(MPS, "gpu/small")], True, True),
        ([own(MIG)], False, True),
        ([LARGE_TURNS, SMALL_TURNS], False, False),
        ([SMALL_TURNS], False, False),
        ([own({**TURNS, "kind": "MigDeviceConfig"}, "gpu/large", "gpu/small")], True, False),
        ([own({"kind": "VfioDeviceConfig"})], True, True),
        ([entry(MPS), own(TURNS)], False, False),
    ],
)
def test_a_request_is_refused_by_the_kind_of_device_that_it_may_get(
    *, entries: list[Configuration], whole: bool, mig: bool
) -> None:
    found = refused([refusals(f"gpu/{way}", entries, DRIVER) for way in ("large", "small")])
    assert [bool(message) for message in found] == [whole, mig]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ([entry(MPS)], "no sharing by MPS"),
        ([entry(MIG, "gpu")], "no sharing by MPS"),
        ([entry(MPS, "gpu"), entry(TURNS, "gpu")], None),
        ([entry({**TURNS, "kind": "MigDeviceConfig"}, "gpu")], None),
        ([entry(MPS, driver="nic.example.com")], None),
        ([entry(MPS, "other")], None),
    ],
)
def test_of_a_claim_alone_is_known_what_no_device_is_given_with(
    config: list[Configuration], why: str | None
) -> None:
    body = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}
    devices = msgspec.structs.replace(msgspec.convert(body, RequestedDevices), config=tuple(config))
    message = refusal_of_claim(devices, DRIVER)
    assert (message is None) if why is None else (why in (message or ""))
