"""containerd: one per node; its socket, shims' sockets and runc's state lie in the node's private /run.

CDI specifications are read from /var/run/cdi alone, which is private to the node, never from /etc/cdi.
"""

import json
from pathlib import Path

from cluster import names
from devcluster.plan import NodePlan

SOCKET = "/run/containerd/containerd.sock"
CDI_FOLDER = "/var/run/cdi"
PAUSE_IMAGE = f"localhost/{names.PRODUCT}/pause:1"

# Snapshotters that none of our pods uses, tracing, and NRI: fewer warnings and a shorter start without them.
_DISABLED = [
    "io.containerd.nri.v1.nri",
    "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.erofs",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.tracing.processor.v1.otlp",
]


def command(node: NodePlan) -> list[str]:
    """The command line of containerd."""
    return [str(node.cluster.programs.path("containerd")), "--config", str(node.folder / "containerd.toml")]


def configuration(node: NodePlan) -> str:
    """The configuration of containerd, version 3."""
    folder = node.folder / "containerd"
    programs = node.cluster.programs
    return f"""\
version = 3
root = "{folder}/root"
state = "/run/containerd"
imports = []
oom_score = 0
disabled_plugins = {json.dumps(_DISABLED)}

[grpc]
  address = "{SOCKET}"
[ttrpc]
  address = "{SOCKET}.ttrpc"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE no container could start otherwise.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  cdi_spec_dirs = ["{CDI_FOLDER}"]
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{programs.path("bridge").parent}"]
    conf_dir = "{node.folder}/cni/configuration"
    use_internal_loopback = true
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        BinaryName = "{programs.path("runc")}"
        SystemdCgroup = false

[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
"""


def import_command(node: NodePlan, tar: Path) -> list[str]:
    """The command that imports an image, to be run inside the node."""
    return [*_ctr(node), "--namespace", "k8s.io", "images", "import", "--local", str(tar)]


def ask_command(node: NodePlan) -> list[str]:
    """The command that succeeds once containerd answers, to be run inside the node."""
    return [*_ctr(node), "version"]


def _ctr(node: NodePlan) -> list[str]:
    return [str(node.cluster.programs.path("ctr")), "--address", SOCKET]
