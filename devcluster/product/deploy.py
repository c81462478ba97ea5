"""Starting our parts in a cluster, and finding them again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

import urllib3

from cluster import names
from devcluster.cluster import Cluster
from devcluster.daemons import Daemon
from devcluster.errors import ClusterError, tail
from devcluster.fakenvml import FakeNvml
from devcluster.product import (
    booking_controller,
    booking_server,
    chart,
    existing,
    extender,
    gpu_scheduler,
    identity,
    node_agent,
)
from devcluster.product.part import Part
from devcluster.product.people import People
from devcluster.wait import poll

AGENT = node_agent.NAME
_SECONDS = 60.0

Mode = Literal["dedicated", "existing"]
Report = Callable[[str], None]
Settings = Mapping[str, str]


class Parts:
    """Our parts in one cluster."""

    def __init__(
        self, cluster: Cluster, *, elects: bool = False, claims: bool = False, driver: str = names.DRA_DRIVER
    ) -> None:
        """Start nothing yet.

        Args:
            cluster: where they run.
            elects: whether our kube-schedulers elect a leader by a Lease, as the chart's do. A single one
                without election does not end when a busy machine keeps it from renewing a Lease.
            claims: whether claims can be booked, on nodes whose agent gives its GPUs by them.
            driver: name of the driver that gives them.
        """
        self._cluster = cluster
        self._elects = elects
        self._claims = claims
        self._driver = driver
        self.folder = cluster.state / "parts"
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.people = People(cluster, self.folder)
        self._mode: Mode = "dedicated"
        self._agents = 0
        self._controllers = 0
        self._ports: dict[str, int] = {}
        """Name of a daemon -> port of its probes."""

    def deploy(
        self,
        report: Report = lambda _line: None,
        *,
        mode: Mode = "dedicated",
        server: Settings | None = None,
        controller: Settings | None = None,
    ) -> None:
        """Install the chart, create the people and start every part; returns when all of them are ready.

        Args:
            report: called when the chart is installed, and when the parts are ready.
            mode: whose kube-scheduler asks the extender; of two extenders of mode `existing` one gets ready.
            server: environment of the booking server that differs from the default.
            controller: the same for the controller.

        Raises:
            ClusterError: the chart is refused, or a part does not get ready; with the end of its log.
        """
        self._mode = mode
        chart.install(self._cluster, self._values())
        self.people.create()
        report("the chart is installed")
        for node in self._cluster.nodes:
            self.start_agent(node)
        if mode == "existing":
            self._start_replicas()
            controller = {names.setting("scheduler_name"): existing.SCHEDULER, **(controller or {})}
        else:
            self.start_pair()
        self.start_server(server)
        self.start_controller(controller)
        self.await_ready()
        report("node agents, extender, GPU scheduler, booking server and controller are ready")

    def upgrade(self, values: Mapping[str, Any]) -> None:
        """Upgrade the chart with these values besides those of a development cluster; {} undoes that.

        Raises:
            ClusterError: in Helm's own words.
        """
        chart.install(self._cluster, {**self._values(), **values})

    def await_ready(self) -> None:
        """Wait until all default parts except kube-scheduler report that they are ready.

        Raises:
            ClusterError: one does not get ready; with the end of its log.
        """
        for name in self._usual():
            daemon = self._cluster.daemon(name)
            if name in self._ports and not poll(partial(self._serves, daemon), seconds=_SECONDS):
                _, answer = self.ask(daemon, "/readyz")
                raise ClusterError(
                    f"{daemon.name} does not get ready ({answer.strip()}):\n{tail(daemon.log)}"
                )

    def _serves(self, daemon: Daemon) -> bool:
        """Whether it is ready; of the extenders of mode `existing`, whether one of them is."""
        replicas = existing.NAMES if daemon.name in existing.NAMES else (daemon.name,)
        return any(self.is_ready(self._cluster.daemon(name)) for name in replicas)

    # --- one part each -------------------------------------------------------------------------------
    def start_agent(
        self,
        node: str,
        *,
        name: str = AGENT,
        settings: Settings | None = None,
        program: Sequence[str] = node_agent.PROGRAM,
    ) -> Daemon:
        """Start a node agent on its node.

        Args:
            node: the node's name.
            name: of the daemon; a second agent of one node needs another.
            settings: environment that differs from the default.
            program: command line of the agent.
        """
        port = node_agent.FIRST_PORT + self._agents
        self._agents += 1
        return self._start(
            node_agent.part(
                node=node,
                name=name,
                port=port,
                program=program,
                gpus=None if self._cluster.has_real_gpus(node) else self._cluster.gpu_folder(node),
                settings=self._account(node_agent.ACCOUNT, node=node) | dict(settings or {}),
            )
        )

    def start_server(self, settings: Settings | None = None) -> Daemon:
        """Start the booking server; one that runs must be killed first.

        Args:
            settings: environment that differs from the default.
        """
        merged = self._account(booking_server.ACCOUNT) | dict(settings or {})
        return self._start(booking_server.part(database=self.database, settings=merged))

    def set_policy(self, settings: Settings) -> None:
        """Restart the booking server with other settings; returns when all parts are ready."""
        self.server().kill()
        self.start_server(settings)
        self.await_ready()

    def start_controller(
        self, settings: Settings | None = None, *, name: str = booking_controller.NAME
    ) -> Daemon:
        """Start a controller. The Service leads to the default one alone, so the others only reclaim.

        Args:
            settings: environment that differs from the default.
            name: of the daemon; a second controller needs another.
        """
        if name == booking_controller.NAME:
            number = 0
        else:
            self._controllers += 1
            number = self._controllers
        merged = self._account(booking_controller.ACCOUNT) | dict(settings or {})
        return self._start(booking_controller.part(name=name, number=number, settings=merged))

    def start_pair(self, number: int = 0, settings: Settings | None = None) -> tuple[Daemon, Daemon]:
        """Start an extender and the kube-scheduler that asks it (mode `dedicated`); one pair leads.

        Args:
            number: of the pair; 0 is the default one.
            settings: environment of the extender that differs from the default.
        """
        name = f"{extender.NAME}-{number}" if number else extender.NAME
        answering = self._start(
            extender.part(self.of_extender() | dict(settings or {}), name=name, number=number)
        )
        part = gpu_scheduler.part(
            kubebox=self._cluster.program("kubebox"),
            kubeconfig=identity.write_kubeconfig(self._cluster, self.folder, gpu_scheduler.ACCOUNT),
            folder=self.folder,
            number=number,
            elects=self._elects,
            claims=self._claims,
            arguments=self._cluster.emulation,
        )
        return answering, self._start(part)

    def of_extender(self) -> dict[str, str]:
        """The environment of an extender that runs in place of the default one."""
        return self._account(extender.ACCOUNT) | extender.election(elects=self._elects)

    @contextmanager
    def electing(self) -> Iterator[None]:
        """Let kube-scheduler elect a leader inside the block, as in the chart: for tests of its Lease."""
        self._set_election(elects=True)
        try:
            yield
        finally:
            self._set_election(elects=False)
            # A Lease that is left would make the scheduler seem to be away.
            lease = ("lease", names.SCHEDULER_LEASE, f"--namespace={names.NAMESPACE}")
            self._cluster.kubectl("delete", *lease, "--ignore-not-found")

    def _set_election(self, *, elects: bool) -> None:
        self._elects = elects
        for daemon in (self.scheduler(), self.extender()):
            daemon.kill()
        self.start_pair()
        self.await_ready()

    def _start_replicas(self) -> None:
        keys = self._cluster.keys
        for part in existing.replicas(keys, self.folder, self._account(extender.ACCOUNT)):
            self._start(part)
        service = ("service", existing.SERVICE, "--namespace", names.NAMESPACE)
        address = self._cluster.kubectl("get", *service, "--output=jsonpath={.spec.clusterIP}")
        url = f"https://{address}:{extender.PORT}"
        self._cluster.configure_scheduler(existing.asking(url, keys=keys, folder=self.folder))

    def _start(self, part: Part) -> Daemon:
        daemon = self._cluster.spawn(
            part.name, part.program, env=part.environment, node=part.node, restarted_always=True
        )
        if part.probes is not None:
            self._ports[daemon.name] = part.probes
        return daemon

    def _account(self, account: str, *, node: str | None = None) -> dict[str, str]:
        booking = {names.setting("book_claims"): "true"} if self._claims else {}
        if self._driver != names.DRA_DRIVER:
            booking[names.setting("dra_driver")] = self._driver
        return identity.environment(self._cluster, self.folder, account, node=node) | booking

    def _values(self) -> dict[str, object]:
        """The chart's values: the parts run as processes of the host."""
        values = chart.external_values(self._cluster.address)
        by = {"mode": "existing", "name": existing.SCHEDULER} if self._mode == "existing" else {}
        dra = {"enabled": True, "booking": True, "driverName": self._driver}
        claims = {"dra": dra} if self._claims else {}
        return {**values, "scheduler": by, "server": {**values["server"], "url": self.booking_url}, **claims}

    def _usual(self) -> tuple[str, ...]:
        agents = (self.agent(node).name for node in self._cluster.nodes)
        deciding = existing.NAMES if self._mode == "existing" else (extender.NAME, gpu_scheduler.NAME)
        return (*agents, *deciding, booking_server.NAME, booking_controller.NAME)

    def restore(self) -> None:
        """Kill additional parts, and start default ones that have ended; returns when these are ready.

        Additional kube-schedulers are left alone.
        """
        usual = self._usual()
        for name in self._ports.keys() - set(usual):
            self._cluster.daemon(name).kill()
        for name in usual:
            daemon = self._cluster.daemon(name)
            if daemon.exited is not None:
                daemon.restart()
        self.await_ready()

    def crashed(self) -> list[str]:
        """Our parts that have ended by themselves since they were started: none ever should.

        kube-scheduler is left out: it ends when it cannot renew its Lease.
        """
        daemons = (self._cluster.daemon(name) for name in self._ports)
        return [daemon.name for daemon in daemons if daemon.restarted]

    # --- seeing --------------------------------------------------------------------------------------
    def logs(self) -> dict[str, Path]:
        """The log of each of our parts except kube-scheduler, by its daemon's name."""
        return {name: self._cluster.daemon(name).log for name in self._ports}

    @property
    def database(self) -> Path:
        """The booking server's database file."""
        return self.folder / "bookings.db"

    @property
    def booking_url(self) -> str:
        """URL of the booking server, without a path: the same on the host and in pods."""
        return f"http://{self._cluster.address}:{booking_server.PORT}"

    def ask(self, daemon: Daemon, path: str) -> tuple[int, str]:
        """Status and text that a part's own HTTP server answers; status 0 and the error if it does not."""
        url = f"http://{self._cluster.address}:{self._ports[daemon.name]}{path}"
        try:
            answer = urllib3.request("GET", url, timeout=2.0, retries=False)
        except urllib3.exceptions.HTTPError as error:
            return 0, str(error)
        return answer.status, answer.data.decode()

    def is_ready(self, daemon: Daemon) -> bool:
        """Whether a part reports that it is ready."""
        return self.ask(daemon, "/readyz")[0] == HTTPStatus.OK

    def metric(self, daemon: Daemon, name: str) -> float:
        """The sum of all samples of metrics whose name ends with this one.

        Raises:
            ClusterError: it does not answer, or has no such sample; one with labels has none until its first
                event.
        """
        status, text = self.ask(daemon, "/metrics")
        if status != HTTPStatus.OK:
            raise ClusterError(f"{daemon.name} shows no metrics ({status}): {text.strip()}")
        found = _samples(text, name)
        if not found:
            raise ClusterError(f"{daemon.name} has no sample of a metric whose name ends with {name}.")
        return sum(found)

    def leads(self, daemon: Daemon) -> bool:
        """Whether a controller answers and reports that it is the leader, which reclaims."""
        _, text = self.ask(daemon, "/metrics")
        return _samples(text, "_controller_leads") == [1]

    def fake_nvml(self, node: str) -> FakeNvml:
        """The simulated GPUs of a node."""
        return FakeNvml(self._cluster.gpu_folder(node))

    def agent(self, node: str, name: str = AGENT) -> Daemon:
        """The daemon of a node's agent."""
        return self._cluster.daemon(f"{node}/{name}")

    def extender(self) -> Daemon:
        """The daemon that the extender runs as."""
        return self._cluster.daemon(extender.NAME)

    def scheduler(self) -> Daemon:
        """The daemon of the GPU profile's kube-scheduler."""
        return self._cluster.daemon(gpu_scheduler.NAME)

    def server(self) -> Daemon:
        """The booking server's daemon."""
        return self._cluster.daemon(booking_server.NAME)

    def controller(self, name: str = booking_controller.NAME) -> Daemon:
        """The daemon that a controller runs as."""
        return self._cluster.daemon(name)


def _samples(text: str, name: str) -> list[float]:
    """The values of all samples in a text of metrics whose name ends with this one."""
    samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return [float(value) for key, _, value in samples if key.partition("{")[0].endswith(name)]
