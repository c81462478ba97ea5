"""Making a cluster's set of namespaces, the nodes' mount namespaces in it, and running commands inside."""

import subprocess
import sys
from pathlib import Path

from devcluster.errors import ClusterError
from devcluster.owner_pipe import OwnerPipe
from devcluster.plan import NodePlan

_INIT = Path(__file__).with_name("init.py")
_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}

# The shell joins the control group before anything of the cluster runs; setsid leaves no child behind that
# the caller would have to reap, and no terminal whose Ctrl-C would reach the cluster.
_JOIN = 'echo $$ > "$1" && shift && exec "$@"'


def start(*, join: Path, control: Path, log: Path, owner: OwnerPipe) -> None:
    """Start PID 1 of a cluster in new namespaces; it answers at `control` a moment later.

    It ends with the process that holds the writing end of the owner's pipe.
    """
    argv = [
        "sh", "-c", _JOIN, "sh", str(join),
        "setsid", "--fork",
        "unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc",
        sys.executable, "-I", "-S", str(_INIT), str(control), str(owner.reading),
    ]  # fmt: skip
    with log.open("ab") as stream:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env=_ENV,
            pass_fds=(owner.reading,),
            check=False,
        )
    owner.hand_over()
    if done.returncode != 0:
        raise ClusterError(f"Cannot start a cluster's first process; see {log}.")


def node_mounts(node: NodePlan) -> str:
    """A shell script that gives a node its own folders, where kubelet and containerd hard-wire the paths.

    Sockets and runc's state lie in /run, links to logs in /var/log, device plugins and checkpoints in
    /var/lib/kubelet, CNI's cache in /var/lib.
    """
    kubelet = node.folder / "kubelet"
    return "\n".join(
        [
            *(f"mount -t tmpfs tmpfs {folder}" for folder in ("/run", "/var/log", "/var/lib")),
            "mkdir -p /var/lib/kubelet /run/cdi /run/lock",
            f"mount --bind '{kubelet}' /var/lib/kubelet",
        ]
    )


def enter_node(namespace: Path, pid: int) -> list[str]:
    """The beginning of a command line that runs in a node's mounts and the cluster's other namespaces."""
    shared = {"net": "net", "pid": "pid_for_children", "ipc": "ipc", "uts": "uts"}
    files = [f"--{option}=/proc/{pid}/ns/{file}" for option, file in shared.items()]
    return ["nsenter", f"--mount={namespace}", *files, "--"]


def host_pid(inner: int, *, init: int, candidates: set[int]) -> int | None:
    """The PID on the host of the process whose PID in the cluster is `inner`; None if it is gone.

    init: PID on the host of the cluster's first process. candidates: PIDs on the host to check.
    """
    space = namespace_of(init, "pid")
    for pid in candidates:
        if inner_pid(pid) == inner and namespace_of(pid, "pid") == space:
            return pid
    return None


def namespace_of(pid: int, kind: str) -> str | None:
    """The namespace of this kind that a process is in; None if the process is gone."""
    try:
        return namespace_of_file(Path(f"/proc/{pid}/ns/{kind}"))
    except OSError:
        return None


def inner_pid(pid: int) -> int | None:
    """The PID of a process in its own namespace; None if the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return None


def namespace_of_file(path: Path) -> str:
    """The identity of the namespace behind a file in /proc, as `namespace_of` returns it."""
    return str(path.readlink())
