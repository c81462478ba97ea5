"""Our CDI specification: what the container runtime adds to a container for each GPU.

Used by the agent with the strategy ``cdi``. The specification is complete: it needs neither NVIDIA's
container runtime nor its toolkit, not even for the loader's cache (``ldcache_hook``). It stays when the agent
stops, because containers may restart meanwhile.

Source: Container Device Interface specification 0.6.0.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster import names
from deviceplugin.device_nodes import DeviceNode, DeviceNodes
from deviceplugin.injection.driver import Mount

CDI_VERSION = "0.6.0"
UNIFIED_MEMORY = "nvidia-uvm"
"""The node without which CUDA does not start; the driver's tools create it, not the kernel."""
COMMON_NODES = ("nvidiactl", UNIFIED_MEMORY, "nvidia-uvm-tools", "nvidia-modeset")

_MOUNT_OPTIONS = ["ro", "nosuid", "nodev", "rbind", "rprivate"]


def device_nodes(own: Mapping[str, Sequence[str]], *, dev_root: Path, host_dev_root: Path) -> DeviceNodes:
    """The device nodes that exist. A device of which any node is missing is left out.

    Args:
        own: uuid -> names of the nodes that the device needs, beneath ``dev_root``.
        dev_root: the folder of the nodes, ``/dev`` on a usual machine, as this process sees it.
        host_dev_root: the same folder, as the container runtime sees it.
    """

    def node(name: str) -> DeviceNode | None:
        there = (dev_root / name).exists()
        return DeviceNode(f"/dev/{name}", str(host_dev_root / name)) if there else None

    def all_of(wanted: Sequence[str]) -> tuple[DeviceNode, ...]:
        found = tuple(there for name in wanted if (there := node(name)))
        return found if len(found) == len(wanted) else ()

    complete = {uuid: found for uuid, wanted in own.items() if (found := all_of(wanted))}
    return DeviceNodes(complete, tuple(there for name in COMMON_NODES if (there := node(name))))


def has_unified_memory(nodes: DeviceNodes) -> bool:
    """Whether CUDA can start with these nodes."""
    return any(node.path == f"/dev/{UNIFIED_MEMORY}" for node in nodes.common)


def specification(
    nodes: DeviceNodes,
    mounts: tuple[Mount, ...] = (),
    *,
    driver_root: Path = Path("/"),
    hooks: Sequence[Mapping[str, Any]] = (),
    kind: str = names.CDI_KIND,
    more: Mapping[str, Mapping[str, Any]] | None = None,
) -> bytes:
    """The text of the specification. Equal input gives equal text.

    Args:
        nodes: the device nodes; devices without a node of their own are left out.
        mounts: the driver's files.
        driver_root: the folder that has them, as the container runtime sees it.
        hooks: what the container runtime runs before a container starts.
        kind: of its devices.
        more: device -> what is added for it besides its nodes, in the words of CDI.
    """
    common: dict[str, Any] = {"env": [f"{names.VISIBLE_DEVICES_VARIABLE}=void"]}
    if nodes.common:
        common["deviceNodes"] = [_node(node) for node in nodes.common]
    if mounts:
        common["mounts"] = [_mount(mount, driver_root) for mount in mounts]
    if hooks:
        common["hooks"] = list(hooks)
    spec = {
        "cdiVersion": CDI_VERSION,
        "kind": kind,
        "devices": [
            {
                "name": uuid,
                "containerEdits": {
                    "deviceNodes": [_node(node) for node in own],
                    **(more or {}).get(uuid, {}),
                },
            }
            for uuid, own in sorted(nodes.of_device.items())
        ],
        "containerEdits": common,
    }
    return json.dumps(spec, indent=2).encode() + b"\n"


def write(folder: Path, text: bytes, *, name: str = names.CDI_FILE) -> bool:
    """Write the specification into the runtime's folder, atomically; returns whether it has changed.

    Raises:
        OSError: the folder cannot be written.
    """
    path = folder / name
    if path.exists() and path.read_bytes() == text:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    # The runtime reads files that end in .json or .yaml: the name of the unfinished one must not.
    unfinished = folder / f".{path.name}.{os.getpid()}.tmp"
    try:
        unfinished.write_bytes(text)
        unfinished.replace(path)
    except OSError:
        # On a full disk, a part of the file would stay there indefinitely.
        unfinished.unlink(missing_ok=True)
        raise
    return True


def _node(node: DeviceNode) -> dict[str, str]:
    return {"path": node.path, "hostPath": node.host_path}


def _mount(mount: Mount, driver_root: Path) -> dict[str, Any]:
    host = driver_root / mount.path.lstrip("/")
    return {"hostPath": str(host), "containerPath": mount.container_path, "options": _MOUNT_OPTIONS}
