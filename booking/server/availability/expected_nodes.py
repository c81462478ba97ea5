"""Nodes that do not exist: an autoscaler adds them when pods need them. The policy declares them. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from booking.policy.node_profiles import NodeProfile
from booking.server.capacity.capacity import Capacity
from cluster import names


def with_expected(
    capacity: Capacity, profiles: Iterable[NodeProfile], labels: Mapping[str, Mapping[str, str]]
) -> Capacity:
    """The capacity together with the nodes that the profiles' pools still lack.

    A node is one of a pool once it has its labels and GPUs of its model, healthy or not. An expected node has
    a slash in its name, which no Node of Kubernetes can have.

    Args:
        capacity: of the nodes that exist.
        profiles: of the policy file.
        labels: node -> its labels.
    """
    devices = {model: dict(nodes) for model, nodes in capacity.devices.items()}
    resources = dict(capacity.resources)
    for profile in profiles:
        there = sum(
            profile.labels.items() <= labels.get(node, {}).items()
            for node in capacity.devices.get(profile.model, {})
        )
        for number in range(1, profile.nodes - there + 1):
            devices.setdefault(profile.model, {})[f"{profile.name}/{number}"] = profile.gpus
            resources.setdefault(profile.model, names.GPU_RESOURCE)
    return replace(capacity, devices=devices, resources=resources)
