"""Nodes that give their GPUs by claims, which can be booked, and pods with claims on whole clusters."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from cluster import names
from cluster.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from cluster.objects.claims import ResourceClaim
from cluster.objects.inventory import inventory_of
from devcluster import probe
from devcluster.product import Parts
from tests.e2e.persons import A100
from tests.e2e.playground import HOSTNAME, Playground
from tests.e2e.session import DESIGN
from tests.e2e.testbed import GPUS, Design

Json = dict[str, Any]
Place = tuple[str, str]
"""(pool, device)."""

CLAIMS: Final[Design] = replace(DESIGN, claims=True)
"""A testbed on which claims can be booked."""
AGENT: Final = "agent-claims"
BY_CLAIM: Final = f"{A100}{names.CLAIMED_MODEL}"
TEMPLATE: Final = "one-gpu"
API: Final = "resource.k8s.io/v1"


@contextmanager
def given_by_claims(
    parts: Parts, playground: Playground, *nodes: str, driver: str = names.DRA_DRIVER
) -> Iterator[None]:
    """Inside, these nodes give their GPUs by claims, and there is a template of a claim for one."""
    for node in nodes:
        parts.agent(node).kill()
        playground.await_gpus(node, 0)
        parts.start_agent(node, name=AGENT, settings={names.setting("device_plugin"): "dra"})
    for node in nodes:
        playground.await_that(f"{node} gives its GPUs by claims", lambda node=node: _gives(playground, node))
    playground.apply(template(deviceClassName=driver))
    try:
        yield
    finally:
        playground.clear()
        playground.kubectl(
            "delete", "resourceclaims,resourceclaimtemplates", "--all", "-n", playground.namespace
        )


def _gives(playground: Playground, node: str) -> bool:
    named = [device for device in inventory_of(playground.node(node)) if device.claimed_as]
    return len(named) == len(published(playground, node)) == GPUS


def published(playground: Playground, node: str) -> dict[str, Json]:
    """Name -> device, as the node's ResourceSlices have it."""
    found = (one for one in playground.kube.list(RESOURCE_SLICES).items if one.spec.node_name == node)
    return {device["name"]: device for each in found for device in each.spec.devices}


def template(name: str = TEMPLATE, **request: Any) -> Json:
    """A template of a claim for one GPU, whichever, with more in its request."""
    exactly = {"deviceClassName": names.DRA_DRIVER, **request}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    meta = {"name": name}
    kind = {"apiVersion": API, "kind": "ResourceClaimTemplate"}
    return {**kind, "metadata": meta, "spec": {"spec": spec}}


def claiming(
    name: str,
    *,
    node: str | None = None,
    seconds: int | None = None,
    scheduler: str = names.SCHEDULER_NAME,
    **source: str,
) -> Json:
    """A pod with a claim of its own for one GPU; ``resourceClaimName="..."``: with that claim."""
    container = probe.container("main", seconds=seconds) | {"resources": {"claims": [{"name": "gpu"}]}}
    extra: Json = {
        "schedulerName": scheduler,
        "resourceClaims": [{"name": "gpu", **(source or {"resourceClaimTemplateName": TEMPLATE})}],
    }
    if node:
        extra["nodeSelector"] = {HOSTNAME: node}
    return probe.pod(name, [container], extra=extra)


def allocated(playground: Playground) -> dict[Place, list[ResourceClaim]]:
    """Device -> the claims that have it, in all namespaces."""
    found: dict[Place, list[ResourceClaim]] = {}
    for claim in playground.kube.list(RESOURCE_CLAIMS).items:
        for result in claim.status.allocation.devices.results if claim.status.allocation else ():
            found.setdefault((result.pool, result.device), []).append(claim)
    return found


def devices_of(playground: Playground) -> dict[str, Place]:
    """Uid of a pod -> the device that its own claim has."""
    return {
        owner.uid: place
        for place, claims in allocated(playground).items()
        for claim in claims
        for owner in claim.metadata.owner_references or ()
    }
