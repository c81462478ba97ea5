"""Where a cluster's files lie: short-lived state, the kubeconfig in the checkout, logs that were kept.

Every checkout has its own folder for the state of its clusters, so that one name in two checkouts means two
clusters. The kernel's objects of a cluster are marked with its name and a hash of that folder; the locks of
all clusters of a machine are in one folder.
"""

import contextlib
import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cluster import names
from devcluster.errors import ClusterError
from devcluster.spec import DEFAULT_NAME, checked_name

CHECKOUT = Path(__file__).resolve().parent.parent
STATE_SETTING = names.setting("devcluster_state")
LOCKS = Path("/run/lock") / names.PRODUCT
"""One file per cluster of this machine, wherever its state lies: see ``devcluster.lockfile``."""
_SOCKET_PATH_LIMIT = 107
_LONGEST_SOCKET = "control"

# A node gets empty folders here, so nothing that the nodes need may lie below them.
PRIVATE_TO_NODES = ("/run", "/var/run", "/var/log", "/var/lib")


@dataclass(frozen=True, slots=True)
class Paths:
    """The folders and files of the cluster with this name.

    root: folder of the state of clusters; the checkout's own by default.
    locks: folder of the locks of all clusters of this machine.
    """

    name: str
    root: Path
    locks: Path = LOCKS

    @property
    def state(self) -> Path:
        """Folder of everything that exists only while the cluster does."""
        return self.root / self.name

    @property
    def lock(self) -> Path:
        """Locked by the process that starts, stops or owns the cluster."""
        return self.locks / f"{self.mark}.lock"

    @property
    def record(self) -> Path:
        """What is needed to attach to the running cluster."""
        return self.state / "cluster.json"

    @property
    def control(self) -> Path:
        """The unix socket of the cluster's first process."""
        return self.state / "control"

    @property
    def pki(self) -> Path:
        """Keys, certificates and tokens."""
        return self.state / "pki"

    @property
    def configuration(self) -> Path:
        """Configuration files and kubeconfigs of the control plane."""
        return self.state / "configuration"

    @property
    def administrator(self) -> Path:
        """The administrator's kubeconfig next to the cluster's other files, for our own kubectl."""
        return self.configuration / "administrator.kubeconfig"

    @property
    def logs(self) -> Path:
        """Folder of the logs, one file per daemon."""
        return self.state / "logs"

    def node(self, node: str) -> Path:
        """A node's own state."""
        return self.state / node

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, at a path that stays the same: in the checkout.

        Clusters whose state is in another folder keep it there: this checkout may have one of the same name.
        """
        if not self._is_standard:
            return self.state / "kubeconfig"
        folder = CHECKOUT / ".devcluster"
        return folder / "kubeconfig" if self.name == DEFAULT_NAME else folder / self.name / "kubeconfig"

    @property
    def kept_logs(self) -> Path:
        """Folder of the logs that are kept after a failure; clusters of one name share none across roots."""
        return CHECKOUT / ".devcluster" / "logs" / (self.name if self._is_standard else self.mark)

    def remove_root_if_empty(self) -> None:
        """Remove the folder of the clusters' state once it is empty, unless the caller chose the folder."""
        if self._is_standard:
            with contextlib.suppress(OSError):
                self.root.rmdir()

    @property
    def _is_standard(self) -> bool:
        # With another folder for temporary files a cluster of this name may run next to the usual one.
        return self.root == _standard_root() and "TMPDIR" not in os.environ

    @property
    def mark(self) -> str:
        """What identifies this cluster's objects in the kernel: its control groups, its link's address."""
        return f"{names.MARK_PREFIX}{self.name}@{hashlib.sha256(bytes(self.root)).hexdigest()[:8]}"


def _standard_root() -> Path:
    checkout = hashlib.sha256(bytes(CHECKOUT)).hexdigest()[:6]
    return (Path(tempfile.gettempdir()) / f"{names.FOLDER_PREFIX}{os.getuid()}-{checkout}").resolve()


def default_root() -> Path:
    """The folder for state if the caller names none."""
    own = os.environ.get(STATE_SETTING)
    return Path(own) if own else _standard_root()


def paths_of(name: str, root: Path | None = None, locks: Path = LOCKS) -> Paths:
    """The paths of a cluster; ClusterError if the name or the folder cannot be used."""
    found = Paths(checked_name(name), (root or default_root()).resolve(), locks)
    for folder in PRIVATE_TO_NODES:
        if found.root.is_relative_to(folder):
            raise ClusterError(
                f"The state of clusters cannot lie in {found.root}: nodes see an empty {folder} of their "
                f"own. Set {STATE_SETTING} to another folder."
            )
    if len(bytes(found.state / _LONGEST_SOCKET)) > _SOCKET_PATH_LIMIT:
        raise ClusterError(
            f"The path {found.state} is too long for a unix socket in it ({_SOCKET_PATH_LIMIT} bytes). "
            f"Set {STATE_SETTING} to a shorter folder."
        )
    return found


def make_root(root: Path) -> None:
    """Make a folder for state or locks, unless it exists; ClusterError if another user owns it.

    Tokens are stored there, and its content is trusted.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_own(root):
        raise ClusterError(
            f"{root} belongs to another user. Remove it, or set {STATE_SETTING} to a folder of your own."
        )


def is_own(folder: Path) -> bool:
    """Whether a folder exists and is this user's, so that no other user has written its content."""
    return folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.getuid()
