"""What is configured for a device of a claim, and why our driver does not give it. Pure.

The node agent asks by the device that a claim has got. Plans, filter and admission ask before there is one,
by what the claim and its DeviceClasses say: nobody leaves for a claim that the node agent would refuse.

kube-scheduler copies the configuration of DeviceClasses and of the claim into the allocation. For each
device the last entry counts that is for its request and for its kind, and the claim's entries come after
those of its classes: so a claim replaces what its class says, as a whole.
Source: Kubernetes 1.37 (resource/v1/types.go, structured/internal), NVIDIA k8s-dra-driver-gpu 25.x.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from cluster.objects.claims import Configuration, DeviceRequest, Refused, RequestedDevices

GPU: Final = "GpuConfig"
"""For whole GPUs."""
MIG: Final = "MigDeviceConfig"
"""For MIG devices."""
FROM_CLAIM: Final = "FromClaim"
BY_ITSELF: Final[tuple[dict[str, Any], ...]] = ({}, {"timeSlicingConfig": {"interval": "Default"}})
"""With TimeSlicing: processes on a GPU take turns so, unless somebody sets other intervals."""

Parameters = Mapping[str, Any]
"""What is meant for one driver, as the user wrote it."""
Entries = Sequence[Configuration]
NONE_REFUSED: Final[Refused] = ("", "")


class Refusals(NamedTuple):
    """What the driver would say if a request were met in one way; empty texts where it would not refuse."""

    of_kind: Refused = NONE_REFUSED
    """By the kind of device that kube-scheduler chooses."""
    always: Refused = NONE_REFUSED
    """Those of them that would be said of the other kind of device, too: it is not the kind that is wrong."""


NOTHING_REFUSED: Final = Refusals()


def configured(
    request: str, entries: Iterable[Configuration], driver: str, *, is_mig: bool
) -> Parameters | None:
    """What counts for a device; None if nothing is configured for it.

    A claim that names the request of a device and means another kind of device has its way: ``problem_of``
    says what is wrong.

    Args:
        request: by which the claim has the device: ``<request>`` or ``<request>/<alternative>``.
        entries: of the allocation.
        driver: whose devices these are.
        is_mig: whether it is a MIG device.
    """
    found: Parameters | None = None
    for one in sorted(entries, key=lambda one: one.source == FROM_CLAIM):
        if one.opaque is None or one.opaque.driver != driver or not _is_for(request, one.requests):
            continue
        parameters = one.opaque.parameters or {}
        is_named = one.source == FROM_CLAIM and request in one.requests
        if is_named or parameters.get("kind") != (GPU if is_mig else MIG):
            found = parameters
    return found


def problem_of(parameters: Parameters, driver: str, *, is_mig: bool) -> str | None:
    """Why this is not given to a device, a clause; None if it is."""
    given = dict(parameters)
    kind = given.pop("kind", None)
    given.pop("apiVersion", None)
    if kind not in {GPU, MIG}:
        return f"The driver {driver} here knows no configuration of kind {kind}"
    if (kind == MIG) != is_mig:
        return f"A {kind} is configured for a {'MIG device' if is_mig else 'whole GPU'}"
    sharing = given.pop("sharing", None) or {}
    if given:
        return f"The driver {driver} here gives no {min(given)} of a {kind}"
    return _sharing_problem(sharing, driver)


def own_entries(devices: RequestedDevices) -> Entries:
    """The configuration of a claim, as kube-scheduler will copy it into the allocation."""
    return [replace(one, source=FROM_CLAIM) for one in devices.config]


def names_of(request: DeviceRequest) -> list[str]:
    """What the allocation will call each way in which a request can be met."""
    return (
        [request.name]
        if request.exactly
        else [f"{request.name}/{one.name}" for one in request.first_available]
    )


def refusals(name: str, entries: Entries, driver: str) -> Refusals:
    """What the driver would say of a way.

    Args:
        name: the way's.
        entries: of its DeviceClass, and ``own_entries``.
        driver: ours.
    """
    if not entries:
        return NOTHING_REFUSED
    found = [configured(name, entries, driver, is_mig=is_mig) for is_mig in (False, True)]
    plain, mig = (
        "" if one is None else problem_of(one, driver, is_mig=is_mig) or ""
        for one, is_mig in zip(found, (False, True), strict=True)
    )
    own_plain, own_mig = ("" if one is None else _own_problem(one, driver) or "" for one in found)
    return Refusals((plain, mig), (own_plain, own_mig))


def refused(ways: Sequence[Refusals]) -> Refused:
    """Why a request would be refused, by the kind of device: it may be met in any of these ways.

    One that may be refused is enough, since kube-scheduler may choose it; but alternatives for different
    kinds of devices, each with its configuration, are as they should be.
    """
    plain, mig = (
        next((one.always[kind] for one in ways if one.always[kind]), "")
        or (ways[0].of_kind[kind] if all(one.of_kind[kind] for one in ways) else "")
        for kind in (0, 1)
    )
    return plain, mig


def refusal_of_claim(devices: RequestedDevices, driver: str) -> str | None:
    """Why the driver would refuse a claim by what it says itself, whatever its classes say; None if not.

    That a kind of configuration is for the other kind of device is not known here.
    """
    entries = own_entries(devices)
    found = (refusals(name, entries, driver) for one in devices.requests for name in names_of(one))
    return next((message for each in found for message in each.always if message), None)


def _own_problem(parameters: Parameters, driver: str) -> str | None:
    """Why this is given to no device, not even one of the kind that it is meant for."""
    return problem_of(parameters, driver, is_mig=parameters.get("kind") == MIG)


def _is_for(request: str, requests: tuple[str, ...]) -> bool:
    return not requests or request in requests or request.partition("/")[0] in requests


def _sharing_problem(sharing: Any, driver: str) -> str | None:
    if not isinstance(sharing, Mapping):
        return f"The driver {driver} here gives no sharing {sharing!r}"
    more = {key: value for key, value in sharing.items() if value}
    strategy = more.pop("strategy", None)
    if not (strategy or more) or (strategy == "TimeSlicing" and more in BY_ITSELF):
        return None
    settings = f" with {' and '.join(sorted(more))}" if more else ""
    return f"The driver {driver} here gives no sharing by {strategy}{settings}"
