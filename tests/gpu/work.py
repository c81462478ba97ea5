"""Pods that compute on a GPU by CUDA, and what their output says.

The container has no Python and no driver of its own: it gets the host's Python read-only by host paths, and
the driver by the node agent's CDI specification. So no image has to be pulled, and none has to be of the
driver's version.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from cluster import names
from devcluster import probe
from tests.e2e.playground import HOSTNAME

JOB: Final = Path(__file__).with_name("cuda_job.py")
INDEFINITELY: Final = 100_000
"""Seconds."""
_IN_POD: Final = "/job"
_FROM_HOST: Final = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives")


class Seen(msgspec.Struct, frozen=True):
    """The first line of a job: the devices that CUDA has, and the nodes in /dev."""

    uuids: tuple[str, ...]
    nodes: tuple[str, ...]
    why: str = ""
    """Why CUDA has none."""
    memory: str | None = None
    """MiB of a shared GPU that the container was told it may use."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """How a pod computes here.

    libraries: a folder of the host with libraries that the pod gets besides, for a rehearsal.
    """

    libraries: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def pod(
        self,
        name: str,
        *,
        gpus: int = 1,
        seconds: int = INDEFINITELY,
        node: str | None = None,
        model: str | None = None,
    ) -> dict[str, Any]:
        """A pod that computes on its first GPU, and waits where it has none."""
        container = probe.container("main", gpus=gpus)
        folders = self._folders()
        container |= {
            "command": [_python(), f"{_IN_POD}/{JOB.name}", str(seconds), names.GPU_MEMORY_VARIABLE],
            "args": [],
            "env": [{"name": key, "value": value} for key, value in self._environment().items()],
            "volumeMounts": [
                {"name": f"host-{number}", "mountPath": where, "readOnly": True}
                for number, where in enumerate(folders)
            ],
        }
        volumes = [
            {"name": f"host-{number}", "hostPath": {"path": path}}
            for number, path in enumerate(folders.values())
        ]
        chosen = {"nodeSelector": {HOSTNAME: node}} if node else {}
        return probe.pod(name, [container], model=model, extra={"volumes": volumes, **chosen})

    def _folders(self) -> dict[str, str]:
        """Place in the pod -> the host's."""
        wanted = [*_FROM_HOST, sys.base_prefix]
        found = {path: str(Path(path).resolve()) for path in wanted if Path(path).exists()}
        found[_IN_POD] = str(JOB.parent)
        if self.libraries is not None:
            found["/libraries"] = str(self.libraries)
        # What lies in another one of them is there already.
        return {path: real for path, real in found.items() if not _is_within(path, found.keys() - {path})}

    def _environment(self) -> dict[str, str]:
        more = {} if self.libraries is None else {"LD_LIBRARY_PATH": "/libraries"}
        return {**more, **self.environment}


def seen_in(log: str) -> Seen | None:
    """What a job has seen; None while it has said nothing."""
    try:
        return msgspec.convert(json.loads(log.partition("\n")[0]), Seen)
    except (ValueError, msgspec.MsgspecError):
        return None


def launches_in(log: str) -> int:
    """How often a job has computed up to now, as it says."""
    lines = [json.loads(line) for line in log.splitlines()[1:] if line.startswith("{")]
    return max((line.get("launches", 0) for line in lines), default=0)


def sharing(body: dict[str, Any], percent: int) -> dict[str, Any]:
    """The pod with a share of one GPU in place of a whole one: so much of its memory."""
    (container,) = body["spec"]["containers"]
    amounts = {names.SHARED_RESOURCE: 1, names.GPU_MEMORY_PERCENTAGE: percent}
    resources = {"limits": amounts, "requests": dict(amounts)}
    spec = {**body["spec"], "containers": [{**container, "resources": resources}]}
    return {**body, "spec": spec}


def annotated(body: dict[str, Any], annotations: Mapping[str, str]) -> dict[str, Any]:
    """The pod with these annotations besides."""
    metadata = {**body["metadata"], "annotations": {**body["metadata"]["annotations"], **annotations}}
    return {**body, "metadata": metadata}


CHEAP: Final = {names.CHECKPOINT_AT: "2100-01-01T00:00:00Z"}
"""Counts as now: a pod that loses nothing when it is evicted."""


def _is_within(path: str, others: set[str]) -> bool:
    return any(Path(path).is_relative_to(other) for other in others)


def _python() -> str:
    """The interpreter without the virtual environment, whose folder the pod does not get."""
    return str(Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"))
