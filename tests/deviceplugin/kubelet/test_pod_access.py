"""When an agent can tell which pod is being admitted, and so serves."""

from pathlib import Path

from cluster.fake.clock import FakeClock
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.kubelet.checkpoint import CheckpointError
from deviceplugin.kubelet.pod_access import CHECKS, PodAccess

ROOT = Path("/var/lib/kubelet")


class Api:
    def __init__(self, why: str | None = None) -> None:
        self.why = why

    def problem(self) -> str | None:
        return self.why


class Checkpoint:
    damaged = False

    def read(self) -> PodDevices:
        if self.damaged:
            raise CheckpointError("The kubelet's checkpoint has an unknown form.")
        return PodDevices()


class Node:
    """A node whose kubelet answers, until a test changes that."""

    def __init__(self, root_in_use: Path | None = None) -> None:
        self.pods, self.resources, self.checkpoint = Api(), Api(), Checkpoint()
        self.access = PodAccess(
            (self.pods, self.resources),
            self.checkpoint,
            FakeClock(),
            root=ROOT,
            root_in_use=lambda: root_in_use,
        )

    def look(self, times: int = 1) -> str | None:
        for _ in range(times):
            self.access.look()
        return self.access.problem


def test_an_agent_that_has_not_looked_does_not_serve() -> None:
    node = Node()
    assert node.access.problem
    assert node.access.lasting_problem is None
    assert node.look() is None


def test_one_of_the_kubelet_s_apis_is_enough() -> None:
    node = Node()
    node.pods.why = "no Pods API"
    assert node.look(2 * CHECKS) is None


def test_a_kubelet_that_starts_may_lack_its_sockets_for_a_moment() -> None:
    node = Node()
    node.look()
    node.pods.why = node.resources.why = "nobody answers"
    assert node.look(CHECKS - 1) is None
    assert node.look() == node.access.lasting_problem is not None
    node.pods.why = None
    assert node.look() is None


def test_both_apis_away_name_what_to_set() -> None:
    node = Node(Path("/data/kubelet"))
    node.pods.why, node.resources.why = "No Pods API.", "No PodResources API."
    message = node.look(CHECKS) or ""
    assert message.startswith(
        "No Pods API. No PodResources API. The kubelet runs with --root-dir /data/kubelet"
    )


def test_a_checkpoint_that_cannot_be_read_is_as_bad_as_unknown_pods() -> None:
    node = Node()
    node.checkpoint.damaged = True
    assert "unknown form" in (node.look(CHECKS) or "")
