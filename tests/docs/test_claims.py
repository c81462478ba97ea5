"""The examples of docs/dra.md are valid, and each claims the devices that it speaks of."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from kubernetes.client import models

from cluster import names
from cluster.decide.claims.expressions import judged
from cluster.decide.claims.terms import terms_of, verdict
from cluster.objects.claims import ClaimSpec, ClassSpec
from cluster.objects.inventory import Device
from deviceplugin.dra.slices import Surroundings, entries
from deviceplugin.nvml.interface import GpuFacts, MigFacts
from deviceplugin.nvml.inventory import NodeDevice
from docs.tables.markdown import ROOT

FILES = sorted((ROOT / "docs" / "examples").glob("claims*.yaml"))
BODIES: list[dict[str, Any]] = [body for path in FILES for body in yaml.safe_load_all(path.read_text())]
ATTRIBUTES = f"device.attributes['{names.DRA_DRIVER}']"
CLASSES = {
    names.DRA_DRIVER: [f"{ATTRIBUTES}.type == 'gpu'"],
    "mig.nvidia.com": [f"{ATTRIBUTES}.type == 'mig'"],
}
"""Those of the chart."""
MODELS = {
    "a100": ("NVIDIA A100-SXM4-80GB", 81920),
    "a6000": ("NVIDIA RTX A6000", 49140),
    "h100": ("NVIDIA H100 80GB HBM3", 81559),
}
WHOLE = set(MODELS)
WANTED = {
    "large-gpu": [{"a100", "h100"}],
    "shared-gpu": [WHOLE],
    "alternatives": [{"h100"}, {"a6000"}],
    "one-gpu": [WHOLE],
    "eight-gpus": [WHOLE],
    "medium-a100": [{"a100"}],
    "two-models": [{"a100", "h100"}, {"a6000"}],
    "without-mig": [WHOLE],
    "with-mig": [{"1g.10gb", "3g.40gb"}],
    "mig-pair": [{"3g.40gb"}, {"3g.40gb"}],
    "by-class": [{"a100", "h100"}],
    "own-configuration": [{"a100", "h100"}],
}
"""Claim or template -> what each request, or each alternative of one, can be met by."""


def gpu(model: str) -> NodeDevice:
    name, memory = MODELS[model]
    facts = GpuFacts(name, "0000:07:00.0", 0, memory, compute=(8, 0))
    return NodeDevice(
        published=Device(uuid=f"GPU-{model}", index=0, model=model, memory=memory),
        minor=0,
        pci=facts.pci,
        facts=facts,
    )


def mig(profile: str, memory: int) -> NodeDevice:
    whole = gpu("a100")
    part = {"uuid": f"MIG-{profile}", "memory": memory, "parent": whole.uuid, "profile": profile}
    return msgspec.structs.replace(
        whole,
        published=msgspec.structs.replace(whole.published, **part),
        part=MigFacts(f"MIG-{profile}", profile, 1, 0, memory),
    )


DEVICES = {
    **{model: gpu(model) for model in MODELS},
    "1g.10gb": mig("1g.10gb", 9728),
    "3g.40gb": mig("3g.40gb", 40192),
}
ENTRIES = {entry["name"]: entry for entry in entries(DEVICES, Surroundings(), unhealthy={}).devices}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_api_knows_every_field(path: Path) -> None:
    """By the schema of Kubernetes' own client, which takes no other."""
    for body in yaml.safe_load_all(path.read_text()):
        group = "ResourceV1" if body["kind"] == "ResourceClaim" else "V1"
        getattr(models, f"{group}{body['kind']}").model_validate(body)


def specification(name: str) -> ClaimSpec:
    (body,) = (one for one in BODIES if one["metadata"]["name"] == name and "Claim" in one["kind"])
    spec = body["spec"]
    return msgspec.convert(spec.get("spec", spec), ClaimSpec)


def accepted(expressions: list[str]) -> set[str]:
    selectors = msgspec.convert(
        [{"cel": {"expression": one}} for one in expressions], ClassSpec.__annotations__["selectors"]
    )
    terms = terms_of(selectors, None)
    found = {name: verdict(terms, names.DRA_DRIVER, entry, judged) for name, entry in ENTRIES.items()}
    assert set(found.values()) <= {True, False}, "what cannot be judged here is never planned for"
    return {name for name, is_accepted in found.items() if is_accepted}


def test_every_claim_is_for_the_devices_that_it_speaks_of() -> None:
    classes = dict(CLASSES)
    for body in BODIES:
        if body["kind"] == "DeviceClass":
            classes[body["metadata"]["name"]] = [
                one["cel"]["expression"] for one in body["spec"]["selectors"]
            ]
    claimed = [body["metadata"]["name"] for body in BODIES if "Claim" in body["kind"]]
    found = {
        name: [
            accepted([*classes[way.device_class_name], *terms_of(way.selectors, None).expressions])
            for request in specification(name).devices.requests
            for way in request.ways
        ]
        for name in claimed
    }
    assert found == WANTED
