"""A cluster with our parts and a watcher of the laws, in which one test after the other is played.

Each finds it as the first one did: after each it is mended, and where that does not succeed a fresh one takes
its place. The test that left it otherwise is named.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from cluster import names
from cluster.kube.errors import ApiError
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.errors import ClusterError
from devcluster.fakenvml import default_gpus
from devcluster.product import Parts
from devcluster.product.deploy import Mode
from devcluster.spec import ClusterSpec, NodeSpec
from devcluster.wait import poll
from tests.clusters import own
from tests.e2e.logs import troubles_of
from tests.e2e.restoring import ClusterState, Restoring, read_state
from tests.e2e.usual import WITHOUT_SHARES
from tests.laws.broken import LawBrokenError
from tests.laws.live import LEEWAY, LiveWatch, checkpoints_of
from tests.patience import PATIENCE

NODES: Final = ("node-a", "node-b")
GPUS: Final = 4
"""Of every node."""


UNMENDED: Final = (ClusterError, ApiError, AssertionError, OSError, ValueError, msgspec.MsgspecError)
"""What keeps a cluster from being brought back; ValueError: of what nobody can read, such as an inventory."""


@dataclass(frozen=True)
class Design:
    """What a testbed is.

    Args:
        name: of its clusters, completed by this process's PID.
        mode: whose kube-scheduler asks the extender.
        server: environment of the booking server that differs from the usual one.
        controller: the same of the controller.
        kubernetes: minor version of all of Kubernetes; the newest by default.
        emulates: minor version that the newest is to pass for.
        kubelets: node -> minor version of its kubelet, where that is not the cluster's.
        kubelet: fields of every kubelet's configuration that differ from the usual ones.
        resources: whose devices no two pods may have.
        alongside: what runs as long as the parts do.
    """

    name: str
    mode: Mode = "dedicated"
    server: Mapping[str, str] = field(default_factory=dict)
    controller: Mapping[str, str] = field(default_factory=dict)
    kubernetes: str = ""
    emulates: str = ""
    kubelets: Mapping[str, str] = field(default_factory=dict)
    kubelet: Mapping[str, str] = field(default_factory=dict)
    resources: tuple[str, ...] = (names.GPU_RESOURCE,)
    claims: bool = False
    """Whether claims can be booked."""
    driver: str = names.DRA_DRIVER
    """Name of the driver that gives them."""
    leeway: float = LEEWAY
    """Seconds between the read and the write of an honest decision."""
    alongside: Callable[[Cluster, Parts], AbstractContextManager[object]] = lambda _cluster, _parts: (
        nullcontext()
    )


class _Started:
    """One cluster of a testbed."""

    def __init__(self, design: Design, stack: ExitStack) -> None:
        nodes = tuple(
            NodeSpec(name=name, gpus=default_gpus(index), kubernetes=design.kubelets.get(name, ""))
            for index, name in enumerate(NODES)
        )
        spec = ClusterSpec(
            name=own(design.name),
            nodes=nodes,
            kubelet=design.kubelet,
            kubernetes=design.kubernetes,
            emulates=design.emulates,
        )
        self.cluster = stack.enter_context(Cluster.start(spec))
        self.parts = Parts(self.cluster, claims=design.claims, driver=design.driver)
        controller = {**WITHOUT_SHARES, **design.controller}
        self.parts.deploy(mode=design.mode, server=design.server, controller=controller)
        stack.enter_context(design.alongside(self.cluster, self.parts))
        watch = LiveWatch(
            administrator(self.cluster),
            SystemClock(),
            checkpoints_of(self.cluster),
            resources=design.resources,
            claims=design.claims,
            driver=design.driver,
            leeway=design.leeway,
        )
        self.live_watch = stack.enter_context(watch)
        self.restoring = Restoring(self.cluster, self.parts, _complete(self.cluster))


class Testbed:
    """A cluster at a time."""

    __test__ = False  # pytest takes it for a class of tests

    def __init__(self, design: Design) -> None:
        self._design = design
        self._stack = ExitStack()
        self._started: _Started | None = None
        self._pinned = False
        self._spoilt = ""

    @property
    def cluster(self) -> Cluster:
        """The cluster that runs now."""
        return self._now.cluster

    @property
    def parts(self) -> Parts:
        """Our parts in it."""
        return self._now.parts

    @property
    def live_watch(self) -> LiveWatch:
        """Who watches the laws in it."""
        return self._now.live_watch

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Inside, tests find the cluster as it is now, and no fresh one takes its place."""
        started, self._pinned = self._now, True
        usual = started.restoring
        started.restoring = Restoring(started.cluster, started.parts, _complete(started.cluster))
        try:
            yield
        finally:
            started.restoring, self._pinned = usual, False

    def restart_daemons(self, test: str) -> None:
        """After a test, as long as its objects are there: every process of the cluster runs again."""
        with suppress(ClusterError):  # `restore` will find the same
            for line in self._now.restoring.restart_daemons():
                _say(f"{test} left it so: {line}")

    def restore(self, test: str, tidy: Callable[[], None]) -> None:
        """After a test: as it was before, or a fresh cluster from now on.

        Args:
            test: its name.
            tidy: removes what the test has made.
        """
        try:
            self._now.restoring.restart_daemons()
            tidy()
            left = self._now.restoring.finish()
        except LawBrokenError:
            raise
        except UNMENDED as error:
            left = [f"{type(error).__name__}: {error}"]
        if left:
            self._spoilt = f"{test} left the cluster otherwise than it was: {'; '.join(left)}"
            _say(self._spoilt)
            if not self._pinned:
                kept = self.cluster.keep_logs()
                _say(f"a fresh cluster takes its place; its logs are kept in {kept}")
                try:
                    self.check_laws()
                finally:
                    self._end()

    def check_laws(self) -> None:
        """Ask who watches the laws, as long as the cluster answers.

        Raises:
            LawBrokenError: a law was broken.
        """
        if self._started is not None and self._started.live_watch.watches:
            self._started.live_watch.check()

    def close(self) -> None:
        """Check it a last time, and end it.

        Raises:
            AssertionError: a law was broken after the last test, or a log has lines that may not be there.
        """
        if self._started is None:
            return
        try:
            self.live_watch.check()
            troubles = troubles_of(self.parts)
            assert not troubles, troubles
            # All of our parts are processes here: as pods they would run a second time.
            pods = self.cluster.kubectl("get", "pods", f"--namespace={names.NAMESPACE}", "--output=name")
            assert not pods, pods
        except BaseException:
            self.cluster.keep_logs()
            raise
        finally:
            self._end()

    @property
    def _now(self) -> _Started:
        assert not (self._pinned and self._spoilt), self._spoilt
        if self._started is None:
            try:
                self._started = _Started(self._design, self._stack)
            except BaseException:
                self._stack.close()
                raise
            self._spoilt = ""
        return self._started

    def _end(self) -> None:
        self._started = None
        self._stack.close()


def _complete(cluster: Cluster) -> ClusterState:
    """Its state once every GPU is allocatable."""

    def complete() -> ClusterState | None:
        now = read_state(cluster)
        return now if all(machine.is_complete(GPUS) for machine in now.machines.values()) else None

    found = poll(complete, seconds=PATIENCE)
    assert found, f"Not every GPU is allocatable: {read_state(cluster).machines}"
    return found


def _say(line: str) -> None:
    sys.stdout.write(f"\n== {line}\n")
    sys.stdout.flush()
