"""What a kubelet believes to be prepared: its checkpoint of claims, ``dra_manager_state``.

Source: kubelet 1.37.1, cm/dra/state. It has the devices of a claim from before its first container starts
until after the driver has been told that its last one has ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

NAME: Final = "dra_manager_state"
"""In the kubelet's folder."""


@dataclass(frozen=True)
class Believed:
    """What a kubelet says of one claim."""

    pods: frozenset[str]
    """Uids of the pods that use it."""
    devices: frozenset[str]
    """Names in the pool."""


class _Device(msgspec.Struct):
    name: str = msgspec.field(name="DeviceName")


class _Driver(msgspec.Struct):
    devices: list[_Device] | None = msgspec.field(name="Devices", default=None)


class _Claim(msgspec.Struct):
    uid: str = msgspec.field(name="ClaimUID")
    pods: dict[str, object] | None = msgspec.field(name="PodUIDs", default=None)
    drivers: dict[str, _Driver] | None = msgspec.field(name="DriverState", default=None)


class _Data(msgspec.Struct):
    claims: list[_Claim] | None = msgspec.field(name="ClaimInfoStateList", default=None)


class _File(msgspec.Struct):
    data: str = msgspec.field(name="Data")


def decode(content: bytes, driver: str) -> Mapping[str, Believed]:
    """Uid of a claim -> what is believed of it and of one driver's devices.

    Raises:
        msgspec.MsgspecError: it has another form.
    """
    data = msgspec.json.decode(msgspec.json.decode(content, type=_File).data, type=_Data)
    found: dict[str, Believed] = {}
    for claim in data.claims or ():
        there = (claim.drivers or {}).get(driver, _Driver()).devices or ()
        found[claim.uid] = Believed(frozenset(claim.pods or ()), frozenset(one.name for one in there))
    return found


def encode(believed: Mapping[str, Believed], driver: str) -> bytes:
    """A checkpoint that says so, but for its checksum."""
    claims = [
        {
            "ClaimUID": uid,
            "PodUIDs": {pod: {} for pod in sorted(one.pods)},
            "DriverState": {driver: {"Devices": [{"DeviceName": name} for name in sorted(one.devices)]}},
        }
        for uid, one in believed.items()
    ]
    return msgspec.json.encode({"Data": msgspec.json.encode({"ClaimInfoStateList": claims}).decode()})
