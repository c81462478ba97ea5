"""Starting our parts in a cluster, and finding them again."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus

import urllib3

from devcluster.cluster import Cluster
from devcluster.daemons import Daemon
from devcluster.failure import ClusterError, tail
from devcluster.fakenvml import FakeNvml
from devcluster.parts import identity, scheduler_profile
from devcluster.waiting import poll

EXTENDER = "extender"
SCHEDULER = "gpu-scheduler"
AGENT = "node-agent"
EXTENDER_PORT = 8880
EXTENDER_PROBE_PORT = 8881
AGENT_PORT = 9400
_SCHEDULER_PORT = 10459
_SECONDS = 60.0
_QUIET_SECONDS = 3
"""A simulated GPU is soon well again: nobody has to wait a minute to see it."""

Report = Callable[[str], None]


class Parts:
    """Our parts in one cluster.

    The node agents of all nodes share the cluster's network, so each gets a port of its own.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.folder = cluster.state / "parts"
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._runs = 0
        self._ports: dict[str, int] = {}

    def deploy(self, report: Report = lambda _line: None) -> None:
        """RBAC, node agents, extender and its kube-scheduler; returns when all of them are ready.

        Raises:
            ClusterError: a part does not get ready; with the end of its log.
        """
        identity.apply_manifests(self._cluster)
        for node in self._cluster.nodes:
            self.start_agent(node)
        self._start_extender()
        self._start_scheduler()
        self.await_ready()
        report("node agents, extender and GPU scheduler are ready")

    def await_ready(self) -> None:
        """Wait until extender and usual agents say that they are ready.

        Raises:
            ClusterError: one does not; with the end of its log.
        """
        for daemon in (self.extender(), *(self.agent(node) for node in self._cluster.nodes)):
            if not poll(partial(self.is_ready, daemon), seconds=_SECONDS):
                _, said = self.ask(daemon, "/readyz")
                raise ClusterError(f"{daemon.name} does not get ready ({said.strip()}):\n{tail(daemon.log)}")

    # --- one part each -------------------------------------------------------------------------------
    def start_agent(
        self,
        node: str,
        *,
        name: str = AGENT,
        settings: Mapping[str, str] | None = None,
        program: Sequence[str] = (sys.executable, "-m", "deviceplugin"),
    ) -> Daemon:
        """A node agent in its node.

        Args:
            node: the node's name.
            name: of the daemon; a second agent of one node needs another.
            settings: environment that differs from the usual one.
            program: command line of the agent.
        """
        port = AGENT_PORT + self._runs
        self._runs += 1
        environment = {
            **self._environment("gpu-booking-node-agent"),
            **self.fake_nvml(node).environment(),
            "GPU_BOOKING_NODE_NAME": node,
            "GPU_BOOKING_INSTANCE": f"{name}-{port}",
            "GPU_BOOKING_PORT": str(port),
            "GPU_BOOKING_QUIET_SECONDS": str(_QUIET_SECONDS),
            "GPU_BOOKING_DEV_ROOT": str(self._cluster.gpu_folder(node) / "dev"),
            **(settings or {}),
        }
        daemon = self._cluster.spawn(name, program, env=environment, node=node, kept=True)
        self._ports[daemon.name] = port
        return daemon

    def _start_extender(self) -> Daemon:
        environment = {
            **self._environment("gpu-booking-extender"),
            "GPU_BOOKING_PORT": str(EXTENDER_PORT),
            "GPU_BOOKING_PROBE_PORT": str(EXTENDER_PROBE_PORT),
        }
        daemon = self._cluster.spawn(EXTENDER, [sys.executable, "-m", "extender"], env=environment, kept=True)
        self._ports[daemon.name] = EXTENDER_PROBE_PORT
        return daemon

    def _start_scheduler(self) -> Daemon:
        kubeconfig = identity.write_kubeconfig(
            self.folder / "scheduler.kubeconfig",
            server=self._cluster.api_server,
            ca_file=self._cluster.ca_file,
            token_file=identity.write_token(self._cluster, self.folder, "gpu-booking-scheduler"),
        )
        profile = scheduler_profile.configuration(
            kubeconfig=kubeconfig, extender_url=f"http://127.0.0.1:{EXTENDER_PORT}"
        )
        path = self.folder / "scheduler.json"
        path.write_text(json.dumps(profile, indent=1))
        command = [
            str(self._cluster.program("kubebox")),
            "kube-scheduler",
            f"--config={path}",
            f"--secure-port={_SCHEDULER_PORT}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder}",
        ]
        # It ends when it cannot renew its Lease; in the chart the kubelet starts it again.
        return self._cluster.spawn(SCHEDULER, command, kept=True)

    def _environment(self, account: str) -> dict[str, str]:
        token = identity.write_token(self._cluster, self.folder, account)
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "GPU_BOOKING_KUBE_SERVER": self._cluster.api_server,
            "GPU_BOOKING_KUBE_CA_FILE": str(self._cluster.ca_file),
            "GPU_BOOKING_KUBE_TOKEN_FILE": str(token),
        }

    def restore(self) -> None:
        """After whatever was done to them: every part runs, one agent a node, and all are ready."""
        usual = {
            self.extender().name,
            self.scheduler().name,
            *(self.agent(node).name for node in self._cluster.nodes),
        }
        for name in self._ports.keys() - usual:
            self._cluster.daemon(name).kill()
        for name in usual:
            daemon = self._cluster.daemon(name)
            if daemon.exited is not None:
                daemon.restart()
        self.await_ready()

    def fallen(self) -> list[str]:
        """Node agents and extenders that have ended by themselves since they were started: none ever should.

        kube-scheduler does, when it cannot renew its Lease.
        """
        daemons = (self._cluster.daemon(name) for name in self._ports)
        return [daemon.name for daemon in daemons if daemon.revived]

    # --- seeing --------------------------------------------------------------------------------------
    def ask(self, daemon: Daemon, path: str) -> tuple[int, str]:
        """Status and text of a part's own HTTP server; status 0 where nobody answers."""
        url = f"http://{self._cluster.address}:{self._ports[daemon.name]}{path}"
        try:
            answer = urllib3.request("GET", url, timeout=2.0, retries=False)
        except urllib3.exceptions.HTTPError as error:
            return 0, str(error)
        return answer.status, answer.data.decode()

    def is_ready(self, daemon: Daemon) -> bool:
        """Whether a part says that it is ready."""
        return self.ask(daemon, "/readyz")[0] == HTTPStatus.OK

    def metric(self, daemon: Daemon, name: str) -> float:
        """The sum of all samples of a metric whose name ends so."""
        lines = self.ask(daemon, "/metrics")[1].splitlines()
        samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return sum(float(value) for key, _, value in samples if key.partition("{")[0].endswith(name))

    def fake_nvml(self, node: str) -> FakeNvml:
        """The simulated GPUs of a node."""
        return FakeNvml(self._cluster.gpu_folder(node))

    def agent(self, node: str, name: str = AGENT) -> Daemon:
        """The daemon of a node's agent."""
        return self._cluster.daemon(f"{node}/{name}")

    def extender(self) -> Daemon:
        """The extender's daemon."""
        return self._cluster.daemon(EXTENDER)

    def scheduler(self) -> Daemon:
        """The daemon of the GPU profile's kube-scheduler."""
        return self._cluster.daemon(SCHEDULER)
