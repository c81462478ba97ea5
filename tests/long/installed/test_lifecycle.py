"""A release is installed, upgraded, taken back, removed, installed again, and removed by hand: pods run on.

What is typed is what docs/operations says. All the time somebody is being taken away.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from booking.controller.reclaimer.evictions.comeback import has_our_finalizer
from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import BOOKINGS, POD_TEMPLATES, PODS, WHOLE_PODS
from cluster.objects.pods import asks_for_gpus, is_terminating
from cluster.process.clock import SystemClock
from cluster.version import VERSION
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator, person
from devcluster.demo.rest import Rest
from devcluster.fakenvml import default_gpus
from devcluster.product.installed import Installed
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.installed.releases import BACK, NEXT, REMOVING, SAVING, UPGRADING, Releases
from tests.long.workloads import a100

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]  # images are built first, where they are not kept

NODE: Final = "node-a"
TEAM: Final = "team"
SLOWLY: Final = 10
"""Seconds that a victim takes to end: something of ours is under way meanwhile."""
VALUES: Final = {"image": {"tag": VERSION}, "server": {"settings": {"shortest_booking": "PT1S"}}}
"""The images of every release are those of today; all else of it is its own."""
OF_BOOKINGS: Final = {
    "CustomResourceDefinition " + f"{BOOKINGS.plural}.{BOOKINGS.group}",
    f"Lease {names.MIRROR_LEASE}",
}
OF_THE_MACHINE: Final = {f"PersistentVolume {names.PRODUCT}-database"}
"""What takes the place of a storage class here."""


class Life:
    """One cluster, one namespace, and who runs in it from the beginning to the end."""

    def __init__(
        self, cluster: Cluster, parts: Installed, ground: Playground, people: dict[str, Person]
    ) -> None:
        self.cluster = cluster
        self.parts = parts
        self.ground = ground
        self.alice, self.bob = people["alice"], people["bob"]
        self.booking = self.alice.book(2)
        self._steady = [self.bob.create(of_another_model("bobs")), self.alice.create(a100("alices"))]
        ground.await_phase(self._steady)
        self._before = self._as_they_are()
        self._number = 0

    def somebody_leaves(self) -> tuple[str, str]:
        """Alice comes for her second GPU, which is bob's: his pod has been deleted, and ends slowly."""
        self._number += 1
        victim = self.bob.create(slow(f"victim-{self._number}"))
        self.ground.await_phase([victim])
        booked = self.alice.create(a100(f"booked-{self._number}"))

        def leaves() -> bool:
            now = self.ground.pod(victim)
            return is_terminating(now) and has_our_finalizer(now)

        self.ground.await_that(f"{victim} leaves", leaves)
        return victim, booked

    def is_back(self, victim: str) -> None:
        """The victim runs without a GPU, and nothing of its comeback is left."""

        def back() -> bool:
            now = self.ground.pod(victim)
            stored = self.ground.kube.list(POD_TEMPLATES).items
            return (
                now.status.phase == "Running"
                and not asks_for_gpus(now)
                and not has_our_finalizer(now)
                and not stored
            )

        self.ground.await_that(f"{victim} is back", lambda: _there(back))

    def makes_way(self, *pods: str) -> None:
        """These are deleted by their owners, and gone."""
        for name in pods:
            self.ground.delete(name)
        gone = {*pods}
        self.ground.await_that(
            f"{pods} are gone",
            lambda: not gone & {pod.metadata.name for pod in self.ground.pods()},
        )

    def is_undisturbed(self) -> None:
        """Who ran at the beginning runs in the same containers, and alice's booking is what it was."""
        assert self._as_they_are() == self._before

    def is_booked(self) -> None:
        """The booking is what it was, to people and in the cluster, and covers the pod that runs."""
        # Another installation gives the Service another address.
        rest = Rest(self.parts.booking_url, self.parts.people.token("alice", names.AUDIENCE))
        assert rest.show(self.booking).body["state"] == "active"
        assert self.ground.kube.get(BOOKINGS, self.booking).spec.count == 2

        def covered() -> bool:
            return self.ground.pod("alices").metadata.annotation(names.BOOKING) == self.booking

        self.ground.await_that("alice's pod is covered", covered)

    def _as_they_are(self) -> dict[str, Any]:
        pods = [self.ground.kube.get(WHOLE_PODS, name, namespace=TEAM) for name in self._steady]
        return {
            pod.metadata.uid: [
                (one["containerID"], one["restartCount"], one["state"])
                for one in pod.status["containerStatuses"]
            ]
            for pod in pods
        }


def _there(condition: Any) -> bool:
    """Whether it holds; a pod that is not there for a moment does not fulfil it."""
    try:
        return bool(condition())
    except ApiError:
        return False


def of_another_model(name: str) -> dict[str, Any]:
    return probe.pod(name, [probe.container("main", gpus=1)], model="NVIDIA-RTX-A6000")


def slow(name: str) -> dict[str, Any]:
    """A pod with an A100 that takes its time to end."""
    body = a100(name)
    body["spec"]["terminationGracePeriodSeconds"] = 3 * SLOWLY
    body["spec"]["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": SLOWLY}}}
    return body


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    nodes = (NodeSpec(name=NODE, gpus=default_gpus(0)),)
    with Cluster.start(ClusterSpec(name=own("lifecycle"), nodes=nodes)) as started:
        yield started


@pytest.fixture
def life(cluster: Cluster) -> Iterator[Life]:
    parts = Installed(cluster, VALUES)
    parts.deploy()
    cluster.kubectl("create", "namespace", TEAM)
    with LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster)) as laws:
        ground = Playground(administrator(cluster), cluster.kubectl, namespace=TEAM, laws=laws)
        yield Life(
            cluster,
            parts,
            ground,
            {user: somebody(user, cluster, parts, ground) for user in ("alice", "bob")},
        )


def somebody(user: str, cluster: Cluster, parts: Installed, ground: Playground) -> Person:
    parts.people.admit(user, TEAM)
    kube: Kube = person(cluster, parts.people.token(user))
    return Person(user, kube, Rest(parts.booking_url, parts.people.token(user, names.AUDIENCE)), ground)


def test_pods_run_on_through_the_whole_life_of_a_release(
    life: Life, cluster: Cluster, tmp_path: Path
) -> None:
    releases = Releases(cluster, tmp_path)

    printed = releases.type_all(SAVING, "bookings.backup", tmp_path / "copy")
    assert re.search(r"Restored \d+ rows? from the standard input", printed)
    life.is_booked()
    life.is_undisturbed()

    victim, booked = life.somebody_leaves()
    releases.type(UPGRADING, "helm upgrade ", changed=True)
    another_release_runs(life, NEXT)
    assert "NEXT" in cluster.kubectl("get", "bookings")
    changed(life, victim, booked)

    victim, booked = life.somebody_leaves()
    releases.type(BACK, "helm rollback ")
    another_release_runs(life, VERSION)
    assert "NEXT" not in cluster.kubectl("get", "bookings")
    changed(life, victim, booked)

    # Afterwards what is watched is there only at times: breaches are still reported, ends are not waited for.
    life.ground.laws.finish()
    victim, booked = life.somebody_leaves()
    releases.type(REMOVING, "helm uninstall gpu-booking --namespace gpu-booking")
    removed(life, releases, victim)
    assert releases.left() == OF_BOOKINGS | OF_THE_MACHINE | volume_claim_and(life.booking)
    anybody_can_create_pods(cluster)
    life.makes_way(victim, booked)

    life.parts.install()
    life.is_booked()
    life.is_undisturbed()

    victim, booked = life.somebody_leaves()
    by_hand = ("kubectl wait ", "kubectl logs ")
    template = "helm template gpu-booking"
    releases.type(REMOVING, "helm uninstall gpu-booking --namespace gpu-booking --no-hooks")
    apply, delete = (one for one in releases.commands_in(REMOVING) if one.startswith(template))
    printed = releases.type(REMOVING, "kubectl delete job ", apply, *by_hand, delete)
    assert f"{TEAM}/{victim}" in printed
    removed(life, releases, victim)
    life.makes_way(victim, booked)
    cluster.kubectl("delete", "namespace", TEAM, "--timeout=120s")
    releases.type(REMOVING, "kubectl delete customres", "kubectl delete persist", "kubectl delete namesp")
    assert releases.left() == OF_THE_MACHINE


def another_release_runs(life: Life, version: str) -> None:
    """All pods of ours are those of this release."""
    life.parts.await_ready()
    label = "app.kubernetes.io/version"
    before = Selection(namespace=names.NAMESPACE, label_selector=f"{label}!={version}")
    life.ground.await_that(
        "no pod of the release before is left", lambda: not life.ground.kube.list(PODS, before).items
    )


def changed(life: Life, victim: str, booked: str) -> None:
    """Nobody was disturbed, who had to leave is back, and who booked has their GPU."""
    life.is_undisturbed()
    life.ground.await_phase([booked])
    life.is_back(victim)
    life.is_booked()
    life.is_undisturbed()
    life.makes_way(victim, booked)


def removed(life: Life, releases: Releases, victim: str) -> None:
    """Nobody was disturbed or lost, and nothing of ours is left on anything."""
    life.is_undisturbed()
    life.is_back(victim)
    assert releases.marks() == set()
    sockets = life.cluster.state / NODE / "kubelet" / "device-plugins"
    assert not [path for path in sockets.iterdir() if path.name.startswith(names.PRODUCT)]


def volume_claim_and(booking: str) -> set[str]:
    return {f"PersistentVolumeClaim {names.PRODUCT}-database", f"Booking {booking}"}


def anybody_can_create_pods(cluster: Cluster) -> None:
    """With a GPU, or with a priority class and keys of whatever name: nobody checks any more."""
    body = probe.pod("after", [probe.container("main", gpus=1)], extra={"schedulerName": "default-scheduler"})
    kube = administrator(cluster)
    assert kube.create(PODS, body, namespace=TEAM, dry_run=True)
