"""A real Kubernetes on this machine: `Cluster.start`, `Cluster.attach`, `.stop`, and everything in between.

Used by the commands (`python -m devcluster`), the demonstration and the end-to-end tests.
"""

import contextlib
import os
import signal
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from devcluster import cleanup, kubeconfig, limits, network, requirements, versions
from devcluster.addresses import Addresses
from devcluster.boot import Boot, Report
from devcluster.cgroups import CgroupTree
from devcluster.commands import output
from devcluster.components import scheduler
from devcluster.control import Process
from devcluster.daemons import Daemon
from devcluster.errors import ClusterError
from devcluster.faults import Faults
from devcluster.handle import ClusterHandle
from devcluster.lockfile import Lockfile
from devcluster.owner_pipe import OwnerPipe
from devcluster.paths import Paths, paths_of
from devcluster.pki import ADMINISTRATOR, Pki
from devcluster.plan import Plan, Programs
from devcluster.spec import DEFAULT_NAME, ClusterSpec, checked
from devcluster.wait import Stopwatch


class Record(msgspec.Struct, frozen=True):
    """The record in a running cluster's state folder, for processes that attach to it."""

    spec: ClusterSpec
    slot: int
    programs: Programs


def silent(_line: str) -> None:
    """Discard a report."""


class Cluster:
    """A running cluster. As a context manager it is stopped at the end; after an error its logs are kept."""

    def __init__(
        self, running: ClusterHandle, lockfile: Lockfile | None = None, owner: OwnerPipe | None = None
    ) -> None:
        self._running = running
        self._plan = running.plan
        self._lockfile = lockfile
        self._owner = owner

    @classmethod
    def start(
        cls, spec: ClusterSpec | None = None, *, report: Report = silent, root: Path | None = None
    ) -> Self:
        """Start a cluster and wait until its nodes are Ready.

        What an earlier cluster of this name left is removed first. The name stays taken until `stop`,
        `release` or the end of this process. If this process ends without either, the cluster ends with it
        at once.

        Raises:
            ClusterError: with the last lines of the relevant logs; only the logs are kept then, in
                `.devcluster/logs/NAME`.

        """
        checked_spec = checked(spec or ClusterSpec())
        where = paths_of(checked_spec.name, root)
        requirements.check()
        limits.ensure(report)
        programs, images = requirements.programs(checked_spec), requirements.images()
        watch = Stopwatch()
        lockfile, owner = Lockfile(where), OwnerPipe()
        tree = CgroupTree()
        try:
            cleanup.clean(where, tree)
            where.state.mkdir(mode=0o711)
            addresses = network.reserve(where.mark)
            plan = Plan(checked_spec, where, addresses, programs, tree.version)
            running = ClusterHandle(plan, tree)
            Boot(running, images=images, report=report, owner=owner).run()
            record = Record(checked_spec, addresses.slot, programs)
            where.record.write_bytes(msgspec.json.encode(record))
            cluster = cls(running, lockfile, owner)
            kubeconfig.write(where.administrator, cluster.kubeconfig_text())
            cluster.publish_kubeconfig()
        except BaseException as error:
            kept = cleanup.keep_logs(where)
            cleanup.clean(where, tree)
            owner.close()
            lockfile.release(remove=True)
            where.remove_root_if_empty()
            if isinstance(error, ClusterError) and kept:
                raise ClusterError(f"{error}\nAll logs are kept in {kept}.") from error
            raise
        report(f"cluster {checked_spec.name} is up after {watch.seconds:.1f} s")
        return cluster

    @classmethod
    def attach(cls, name: str = DEFAULT_NAME, *, root: Path | None = None) -> Self:
        """A cluster that runs already, whichever process started it; ClusterError if there is none."""
        where = paths_of(name, root)
        try:
            record = msgspec.json.decode(where.record.read_bytes(), type=Record)
        except FileNotFoundError:
            raise ClusterError(
                f"There is no cluster {name}. `.venv/bin/python -m devcluster up --name {name}` starts one."
            ) from None
        tree = CgroupTree()
        plan = Plan(record.spec, where, Addresses(record.slot), record.programs, tree.version)
        running = ClusterHandle(plan, tree)
        running.control.host_pid()
        return cls(running)

    def stop(self) -> None:
        """End the cluster and remove everything of it; ClusterError if another process owns it."""
        remove_at(self._plan.paths, self._lockfile)
        self._lockfile = None
        self._close_pipe()

    def release(self) -> None:
        """Let the cluster outlive this process, and release its lock: other processes may then stop it."""
        if self._lockfile is not None:
            with contextlib.suppress(ClusterError):  # the cluster has ended already
                self._running.control.outlive()
            self._lockfile.release(remove=False)
            self._lockfile = None
            self._close_pipe()

    def _close_pipe(self) -> None:
        if self._owner is not None:
            self._owner.close()
            self._owner = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.keep_logs()
        self.stop()

    def keep_logs(self) -> Path | None:
        """Copy all logs to `.devcluster/logs/NAME`, where they outlive the cluster."""
        return cleanup.keep_logs(self._plan.paths)

    # --- what it is ------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self._plan.spec.name

    @property
    def pid(self) -> int:
        """PID, on the host, of the cluster's first process; everything ends with it."""
        return self._running.control.host_pid()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes' names."""
        return tuple(node.name for node in self._plan.nodes)

    @property
    def emulation(self) -> list[str]:
        """Arguments that every kube-scheduler of it needs, if the cluster emulates a version."""
        return versions.emulation(self._plan.spec.emulates)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, at a path that stays the same from start to start."""
        return self._plan.paths.kubeconfig

    def publish_kubeconfig(self) -> None:
        """Write the administrator's kubeconfig to its path, in case another checkout started the cluster."""
        kubeconfig.write(self.kubeconfig, self.kubeconfig_text())

    @property
    def api_server(self) -> str:
        """URL of the API server: the same on the host, on nodes and in pods."""
        return self._plan.server

    @property
    def address(self) -> str:
        """The cluster's own IP address, that of the API server and of our parts; reachable from the host."""
        return str(self._plan.addresses.control_plane)

    @property
    def host_address(self) -> str:
        """The host's IP address, at which processes of the cluster reach servers on the host."""
        return str(self._plan.addresses.host)

    @property
    def administrator_token(self) -> str:
        """The administrator's bearer token: for tests and demonstrations, never for a part of the product."""
        return self._plan.pki.token(ADMINISTRATOR)

    @property
    def keys(self) -> Pki:
        """The cluster's keys and certificates."""
        return self._plan.pki

    @property
    def ca_file(self) -> Path:
        """Certificate of the API server's authority, readable on the host and on nodes."""
        return self._plan.pki.authority

    @property
    def state(self) -> Path:
        """Folder of everything that ends with the cluster; nodes see it, too."""
        return self._plan.paths.state

    def program(self, name: str) -> Path:
        """One of the cluster's own binaries, such as `kubebox` or `ctr`."""
        return self._plan.programs.path(name)

    def gpu_folder(self, node: str) -> Path:
        """The folder of a node's simulated GPUs, for `FakeNvml`; `dev/` in it has their device nodes."""
        return self._running.node(node).gpu_folder

    def has_real_gpus(self, node: str) -> bool:
        """Whether a node has this machine's GPUs, and no simulated ones."""
        return self._running.node(node).spec.real

    # --- Kubernetes ------------------------------------------------------------------------------------

    def kubectl(self, *words: str, given: str | None = None) -> str:
        """What kubectl prints, run as the administrator; ClusterError if it fails. `given` is its stdin."""
        argv, environment = self.kubectl_command(*words)
        return output(argv, given=given, env=environment)

    def kubectl_command(self, *words: str) -> tuple[list[str], dict[str, str]]:
        """The command line and the environment of kubectl as the administrator."""
        argv = [str(self.program("kubectl")), f"--kubeconfig={self._plan.paths.administrator}", *words]
        # The default folder for its cache is in the user's home and would outlive the cluster.
        return argv, {**_inherited(), "KUBECACHEDIR": str(self.state / "kubectl-cache")}

    def service_account_token(
        self, namespace: str, name: str, seconds: int = 3600, *, node: str | None = None
    ) -> str:
        """A new token of a ServiceAccount (TokenRequest; the API server refuses less than 600 seconds).

        Args:
            namespace: of the account.
            name: of the account.
            seconds: how long it is valid.
            node: the Node that the token is bound to: the token names it, and is invalid without it.
        """
        words = ["create", "token", name, f"--namespace={namespace}", f"--duration={seconds}s"]
        bound = ["--bound-object-kind=Node", f"--bound-object-name={node}"] if node else []
        return self.kubectl(*words, *bound).strip()

    def kubeconfig_text(self, token: str | None = None, user: str = ADMINISTRATOR) -> str:
        """A kubeconfig for a token, by default the administrator's."""
        pki = self._plan.pki
        return kubeconfig.text(
            server=self.api_server,
            authority=pki.authority,
            token=token or pki.token(ADMINISTRATOR),
            user=user,
        )

    def load_image(self, tar: Path) -> None:
        """Import an OCI or Docker archive on every node."""
        for node in self._plan.nodes:
            self._running.import_image(node, tar.resolve())

    # --- processes -------------------------------------------------------------------------------------

    def spawn(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        node: str | None = None,
        restarted_always: bool = False,
    ) -> Daemon:
        """Run a program of the host inside the cluster; with `node`, in that node's mounts as `NODE/NAME`.

        It starts in `/`, with the caller's environment (without KUBECONFIG and proxies) updated by `env`.
        It ends with the cluster, not with the caller. With `restarted_always` it is restarted when it ends
        by itself, as a kubelet restarts containers.
        """
        return self._running.start(
            name, argv, env={**_inherited(), **(env or {})}, node=node, restarted_always=restarted_always
        )

    def daemon(self, name: str) -> Daemon:
        """A process by name, such as `etcd`, `node-a/kubelet` or a spawned one; ClusterError if unknown."""
        daemon = self._running.daemon(name)
        _ = daemon.exited  # it raises for an unknown name
        return daemon

    @property
    def daemons(self) -> dict[str, Daemon]:
        """Every process by name."""
        return {name: self._running.daemon(name) for name in self._running.control.processes()}

    def processes(self) -> dict[str, Process]:
        """Name -> process, as the cluster's first process sees it: its command line, and how it ended."""
        return self._running.control.processes()

    def reset_restarts(self) -> None:
        """Set the number of restarts of every process to 0."""
        self._running.control.reset_restarts()

    def log(self, name: str) -> str:
        """What a process has printed so far."""
        return self.daemon(name).log.read_text(errors="replace")

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to a process, or to everything on a node, pods included; SIGKILL is a power cut."""
        self._faults.signal(name, number)

    def pause(self, name: str) -> None:
        """Pause a process, or everything on a node (SIGSTOP)."""
        self._faults.signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a paused process or node continue (SIGCONT)."""
        self._faults.signal(name, signal.SIGCONT)

    def restart(self, name: str, *, late: Collection[str] = ()) -> None:
        """Kill a process, or everything on a node, and start its daemons again with the same command lines.

        Args:
            name: of a process or a node.
            late: processes of the node that the caller starts later.
        """
        self._faults.restart(name, late=late)

    def configure_scheduler(self, configuration: Mapping[str, Any]) -> None:
        """Restart the cluster's own kube-scheduler with another configuration.

        Args:
            configuration: like ``ClusterSpec.scheduler``, which it replaces.
        """
        spec = msgspec.structs.replace(self._plan.spec, scheduler=configuration)
        changed = replace(self._plan, spec=spec)
        file = self._plan.configuration(f"{scheduler.NAME}.json")
        file.write_text(scheduler.configuration(changed))
        self.restart(scheduler.NAME)

    def containerd_answers(self, node: str) -> bool:
        """Whether a node's containerd answers requests."""
        return self._running.containerd_answers(self._running.node(node))

    @property
    def _faults(self) -> Faults:
        return Faults(self._running)


def _inherited() -> dict[str, str]:
    """The caller's environment without an administrator's rights and without proxies, which lead nowhere.

    The name of the test that starts the process is left out, too: it differs from process to process.
    """
    left_out = {"kubeconfig", "http_proxy", "https_proxy", "all_proxy", "pytest_current_test"}
    return {key: value for key, value in os.environ.items() if key.lower() not in left_out}


def runs(name: str, *, root: Path | None = None) -> bool:
    """Whether a cluster of this name runs and answers."""
    try:
        Cluster.attach(name, root=root)
    except ClusterError:
        return False
    return True


def remove(name: str = DEFAULT_NAME, *, root: Path | None = None) -> bool:
    """Remove everything of a cluster, even if it was killed or never existed. Returns whether it had state.

    Raises:
        ClusterError: another process owns it, or something of it cannot be removed.

    """
    return remove_at(paths_of(name, root))


def remove_at(where: Paths, lockfile: Lockfile | None = None) -> bool:
    """Remove the cluster with these paths, as `remove` does; `lockfile`: its lock, if the caller holds it."""
    requirements.check_user()
    held = lockfile or Lockfile(where)
    was = where.state.exists()
    try:
        cleanup.clean(where, CgroupTree())
    finally:
        held.release(remove=True)
        where.remove_root_if_empty()
    return was
