"""Claims for scenarios: nodes that give their GPUs by claims, and pods that ask for them so."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cluster import names
from cluster.kube.resources import CLAIM_TEMPLATES, RESOURCE_CLAIMS, TAINT_RULES
from cluster.objects.claims import ResourceClaim
from demo.simulation import claim_devices
from demo.simulation.claim_devices import cel, claim_spec, claimed
from tests.fakes.objects import A100, a100
from tests.scenarios.person import NAMESPACE, a_pod
from tests.scenarios.world import World

Json = dict[str, Any]

BY_CLAIM: Final = f"{A100}{names.CLAIMED_MODEL}"
LARGE: Final = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('60Gi')) >= 0"


Claims = Callable[..., World]
"""Makes a world; takes what ``world_of_claims`` takes besides the folder, by name."""


def world_of_claims(
    folder: Path,
    nodes: tuple[str, ...] = ("n0",),
    gpus: int = 2,
    *,
    shared: bool = False,
    **settings: Any,
) -> World:
    """A world whose nodes give their GPUs by claims, which can be booked; ``shared``: in shares, too."""
    devices = {
        node: tuple(claimed(a100(index, node), shared=shared) for index in range(gpus)) for node in nodes
    }
    world = World(folder, devices, book_claims=True, **settings)
    claim_devices.add_class(world.kube)
    for node, found in devices.items():
        claim_devices.publish(world.kube, node, found, shared=shared)
    template(world, "one-gpu")
    template(world, "large-gpu", LARGE)
    return world


def template(world: World, name: str, *expressions: str, count: int = 1) -> None:
    """A template of a claim."""
    claim_devices.template(world.kube, name, NAMESPACE, *expressions, count=count)


def template_of(world: World, name: str, *, config: tuple[Json, ...] = (), **request: Any) -> None:
    """A template of a claim with this request: ``exactly`` or ``firstAvailable`` as the API has it."""
    spec = {"devices": {"requests": [{"name": "gpu", **request}], "config": list(config)}}
    meta = {"name": name, "namespace": NAMESPACE}
    world.kube.put(CLAIM_TEMPLATES, {"metadata": meta, "spec": {"spec": spec}})


def exactly(*expressions: str, **more: Any) -> Json:
    """A way to ask for GPUs: those that satisfy these expressions."""
    return {"deviceClassName": names.DRA_DRIVER, "selectors": [cel(one) for one in expressions], **more}


def sharing(strategy: str) -> Json:
    """What a claim or a DeviceClass configures for whole GPUs."""
    parameters = {"kind": "GpuConfig", "sharing": {"strategy": strategy}}
    return {"opaque": {"driver": names.DRA_DRIVER, "parameters": parameters}}


def claim(world: World, name: str, *, config: tuple[Json, ...] = ()) -> None:
    """A claim that several pods may name, made by bob."""
    spec = claim_spec()
    spec["devices"]["config"] = list(config)
    world.bob.kube.create(RESOURCE_CLAIMS, {"metadata": {"name": name}, "spec": spec}, namespace=NAMESPACE)


def claiming(name: str, of: str = "one-gpu", *, named: bool = False) -> Json:
    """A pod with a claim: from a template, or a named one."""
    pod = a_pod(name, 0, model=None)
    source = {"resourceClaimName": of} if named else {"resourceClaimTemplateName": of}
    pod["spec"]["resourceClaims"] = [{"name": "gpu", **source}]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return pod


def devices_of_claims(world: World) -> dict[str, list[str]]:
    """Device -> names of the claims that have it, as stored: never two (law L1)."""
    found: dict[str, list[str]] = {}
    for one in world.kube.list(RESOURCE_CLAIMS).items:
        for result in one.status.allocation.devices.results if one.status.allocation else ():
            found.setdefault(f"{result.pool}/{result.device}", []).append(one.metadata.name)
    return found


def stored(world: World, name: str) -> ResourceClaim:
    """A claim as stored."""
    return world.kube.get(RESOURCE_CLAIMS, name, namespace=NAMESPACE)


def give(world: World, claim: str, device: str = "gpu-0") -> None:
    """A bind was refused: the claim, once it is made, has a device of n0, and is reserved for nobody."""
    world.until(lambda: claim in {one.metadata.name for one in world.kube.list(RESOURCE_CLAIMS).items}, claim)
    result = {"request": "gpu", "driver": names.DRA_DRIVER, "pool": "n0", "device": device}
    body = {"status": {"allocation": {"devices": {"results": [result]}}}}
    world.kube.patch(RESOURCE_CLAIMS, claim, body, namespace=NAMESPACE, subresource="status")


def rules(world: World) -> list[str]:
    """The DeviceTaintRules that exist."""
    return [one.metadata.name for one in world.kube.list(TAINT_RULES).items]
