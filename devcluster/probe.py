"""Probe pods: the probe image prints what its container sees, and we read it.

Used by the story that ``make run`` plays and by the end-to-end tests.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from cluster import names
from devcluster.errors import ClusterError
from devcluster.wait import poll

IMAGE = f"localhost/{names.PRODUCT}/probe:1"
_LOG_SECONDS = 60.0
_EVERY = 0.25
"""Seconds between two runs of kubectl."""


class DeviceNode(msgspec.Struct, frozen=True):
    """A character device in the container."""

    path: str
    major: int
    minor: int


class Sight(msgspec.Struct, frozen=True):
    """What one container sees: its NVIDIA_* and GPU_BOOKING_* variables and its /dev/nvidia* devices."""

    env: dict[str, str]
    devices: tuple[DeviceNode, ...]

    @property
    def uuids(self) -> tuple[str, ...]:
        """The GPUs that the environment names, sorted."""
        return tuple(sorted(filter(None, self.env.get(names.DEVICES_VARIABLE, "").split(","))))

    @property
    def gpu_minors(self) -> tuple[int, ...]:
        """Minor numbers of the GPUs' device nodes (``/dev/nvidia<minor>``), sorted."""
        return tuple(sorted(d.minor for d in self.devices if d.path.removeprefix("/dev/nvidia").isdigit()))


def container(
    name: str,
    *,
    gpus: int = 0,
    memory: int | None = None,
    seconds: int | None = None,
    sidecar: bool = False,
) -> dict[str, Any]:
    """One container that prints what it sees, then sleeps (indefinitely, or for the seconds given).

    Args:
        name: of the container.
        gpus: that it asks for.
        memory: MiB of each, if it asks for a share of them.
        seconds: that it sleeps.
        sidecar: whether it is one.
    """
    spec: dict[str, Any] = {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "args": [] if seconds is None else [str(seconds)],
    }
    if gpus:
        spec["resources"] = {"limits": {names.GPU_RESOURCE: str(gpus)}}
    if memory:
        spec["resources"]["limits"][names.GPU_MEMORY] = str(memory)
    if sidecar:
        spec["restartPolicy"] = "Always"
    return spec


def pod(
    name: str,
    containers: list[dict[str, Any]],
    *,
    init: list[dict[str, Any]] | None = None,
    model: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A pod for our scheduler.

    Args:
        name: of the pod.
        containers: app containers.
        init: regular init containers and sidecars.
        model: the requested ``gpu-booking.io/model``.
        extra: further fields of ``spec``.
    """
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {names.MODEL: model} if model else {}},
        "spec": {
            "schedulerName": names.SCHEDULER_NAME,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "dnsPolicy": "Default",  # no DNS runs in a development cluster
            "initContainers": init or [],
            "containers": containers,
            **(extra or {}),
        },
    }


def parse_sight(log: str) -> Sight | None:
    """The first line of a probe's log, decoded; None while it is missing or incomplete."""
    line = log.partition("\n")[0]
    try:
        return msgspec.convert(json.loads(line), Sight)
    except (ValueError, msgspec.MsgspecError):
        return None


def read_sight(
    kubectl: Callable[..., str], *, namespace: str, name: str, container_name: str = "main"
) -> Sight | None:
    """What a container has printed; None if it prints nothing within a minute."""

    def read() -> Sight | None:
        try:
            return parse_sight(kubectl("logs", "-n", namespace, name, "-c", container_name))
        except ClusterError:  # the container is not there yet
            return None

    return poll(read, seconds=_LOG_SECONDS, every=_EVERY)
