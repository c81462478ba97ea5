"""The chart's pods where a site keeps its scheduler and MAIA: modes ``existing`` and MAIA in one install.

The cluster's kube-scheduler is configured as docs/extender.md says, by its commands. The story
is played first, as its policy is the default one; after it people may book again and again.
"""

import io
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from cluster import names
from cluster.kube.errors import Forbidden
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from cluster.objects.cover_annotations import text_of
from cluster.objects.pods import Pod, asks_for_gpus, is_terminating
from cluster.process.clock import SystemClock
from cluster.version import VERSION
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator, person
from devcluster.demo.play import play
from devcluster.demo.reporter import Reporter
from devcluster.demo.rest import Rest
from devcluster.fakenvml import default_gpus
from devcluster.images import product
from devcluster.paths import CHECKOUT
from devcluster.product.installed import Installed
from devcluster.product.people import IDENTITY_RULES, NAMESPACE, USERS
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.hubs import HUB
from tests.e2e.persons import A100, Person
from tests.e2e.playground import PATIENCE, Playground
from tests.e2e.story_run import VICTIMS, pods_that
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.workloads import a100

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]  # images are built first, where they are not kept

A100S: Final = 4
SCHEDULER: Final = "default-scheduler"
SERVER: Final = f"{names.BOOKING_SERVER}.{names.NAMESPACE}"
SCHEDULABILITY: Final = f"http://{SERVER}/maia-api/gpu-schedulability/"
STATS: Final = f"http://{SERVER}/maia/resources/gpu_status_summary/"
TERMINATOR: Final = "pod-terminator"
SHOWN: Final = "a-token-of-the-site"
OF_MAIA: Final = "maia"
"""The namespace in which MAIA's own pods are."""
LONG_AGO: Final = "1900-01-01T08:00:00Z"
VALUES: Final[dict[str, Any]] = {
    "scheduler": {"mode": "existing", "name": SCHEDULER},
    "controller": {"trustedCreators": [HUB.user]},
    "identityRules": [
        *json.loads(IDENTITY_RULES),
        {"source": "maia", "match": "([^@]+)@example[.]org", "user": r"\1"},
    ],
    "maia": {"namespaces": [OF_MAIA]},
    "apiUrl": SCHEDULABILITY,
    "gpuStatsUrl": STATS,
    "apiToken": SHOWN,
    "namespace": names.NAMESPACE,
}
Answers = list[tuple[int, Any]]


class AsDocumented(Installed):
    """With the cluster's own kube-scheduler, configured as the documents advise administrators."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        super().__init__(cluster, VALUES)
        self._folder = folder
        self._of = cluster

    def deploy(self, report: Callable[[str], None] = lambda _line: None) -> None:
        """The chart, then the steps of docs/extender.md."""
        super().deploy(report)
        text = (CHECKOUT / "docs" / "extender.md").read_text()
        (script,) = re.findall(r"<!-- tested: paste -->\n +```bash\n(.*?)```", text, re.DOTALL)
        (there,) = set(re.findall(r"`(/etc/kubernetes/[a-z-]+)`", text))
        argv, environment = self._of.kubectl_command()
        kubectl = self._folder / "kubectl"
        kubectl.write_text(f'#!/bin/sh\nexec {" ".join(argv)} "$@"\n')
        kubectl.chmod(0o755)
        path = {**environment, "PATH": f"{self._folder}:{os.environ['PATH']}"}
        subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=self._folder, env=path, check=True)
        configuration = (self._folder / "scheduler.yaml").read_text().replace(there, str(self._folder))
        self._of.configure_scheduler(yaml.safe_load(configuration))


@dataclass
class Site:
    """The cluster after the story."""

    cluster: Cluster
    parts: AsDocumented
    laws: LiveWatch
    output: str
    schedulers: set[str | None]
    """Of the story's pods."""
    grounds: list[Playground] = field(default_factory=list)

    @property
    def kube(self) -> Kube:
        """The administrator's."""
        return administrator(self.cluster)

    def namespace(self, name: str, *people: str) -> Playground:
        """A namespace in which these people may edit."""
        self.cluster.kubectl("create", "namespace", name)
        for user in people:
            self.parts.people.admit(user, name)
        ground = Playground(self.kube, self.cluster.kubectl, namespace=name, laws=self.laws)
        self.grounds.append(ground)
        return ground

    def rest(self, user: str) -> Rest:
        """Somebody at the booking server."""
        return Rest(self.parts.booking_url, self.parts.people.token(user, names.AUDIENCE))

    def somebody(self, user: str, ground: Playground) -> Person:
        """Alice or bob, at home there."""
        client = person(self.cluster, self.parts.people.token(user))
        return Person(user, client, self.rest(user), ground)

    def hub(self, ground: Playground) -> Kube:
        """A JupyterHub's own account, which may edit there."""
        HUB.admit(self.cluster.kubectl, ground.namespace)
        return person(self.cluster, self.cluster.service_account_token(HUB.namespace, HUB.name))

    def leave(self) -> None:
        """Nothing is left of a test."""
        for user in USERS:
            rest = self.rest(user)
            for booking in rest.ask("GET", "/bookings").body["bookings"]:
                rest.release(booking["id"])
        for ground in self.grounds:
            ground.clear()
            self.cluster.kubectl("delete", "namespace", ground.namespace, "--wait=false")
        self.grounds.clear()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    nodes = tuple(NodeSpec(name=f"node-{letter}", gpus=default_gpus(n)) for n, letter in enumerate("ab"))
    written = io.StringIO()
    with (
        Cluster.start(ClusterSpec(name=own("modes"), nodes=nodes)) as cluster,
        LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster)) as laws,
    ):
        parts = AsDocumented(cluster, tmp_path_factory.mktemp("control-plane"))
        play(cluster, Reporter(written), parts=parts, patience=PATIENCE)
        playground = Playground(administrator(cluster), cluster.kubectl, namespace=NAMESPACE, laws=laws)
        schedulers = {pod.spec.scheduler_name for pod in playground.pods()}
        playground.clear()
        yield Site(cluster, parts, laws, written.getvalue(), schedulers)
        laws.finish()


@pytest.fixture
def site(played: Site, request: pytest.FixtureRequest) -> Iterator[Site]:
    played.laws.begin(request.node.name)
    yield played
    played.laws.finish()
    played.leave()


def notebook(name: str, user: str, *, until: str | None = None) -> dict[str, Any]:
    """A pod as a hub makes it, with MAIA's annotation if there is one."""
    body = a100(name)
    body["metadata"]["annotations"] |= {names.HUB_USER: user}
    if until:
        body["metadata"]["annotations"] |= {names.TERMINATE_AT: until}
    return body


def evicted(ground: Playground, before: Mapping[str, Pod]) -> list[str]:
    """Names of those who are gone or on their way: a device is free before its pod's object is gone."""
    stay = {pod.metadata.uid for pod in ground.pods() if not is_terminating(pod)}
    return [name for name, pod in before.items() if pod.metadata.uid not in stay]


def await_back(ground: Playground, was: Pod) -> Pod:
    """Wait until the pod is there again, without a GPU."""
    name = was.metadata.name

    def back() -> Pod | None:
        for pod in ground.pods():
            if (
                pod.metadata.name == name
                and pod.metadata.annotation(names.RECREATED_FROM) == was.metadata.uid
            ):
                return pod
        return None

    pod = ground.await_that(f"{name} comes back", back)
    assert not asks_for_gpus(pod)
    return pod


def ask(site: Site, ground: Playground, *requests: tuple[str, str, Any]) -> Answers:
    """What MAIA's tools are answered, from a pod in a namespace of theirs; no DNS runs here."""

    def address(service: str) -> str:
        where = f"--namespace={names.NAMESPACE}"
        return site.cluster.kubectl("get", "service", service, where, "--output=jsonpath={.spec.clusterIP}")

    known = {TERMINATOR: TERMINATOR, names.BOOKING_SERVER: SERVER}
    program = (CHECKOUT / "tests" / "long" / "actors" / "asking.py").read_text()
    name = f"asks-{len(ground.pods())}"
    container = {
        "name": "main",
        "image": product.tag("booking", VERSION),
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", program, json.dumps(requests)],
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "hostAliases": [{"ip": address(s), "hostnames": [host]} for s, host in known.items()],
        "containers": [container],
    }
    ground.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    ground.await_phase([name], "Succeeded")
    output = site.cluster.kubectl("logs", name, f"--namespace={ground.namespace}")
    return [(status, body) for status, body in json.loads(output)]


def test_the_story_is_played_to_its_end_by_the_clusters_own_scheduler(site: Site) -> None:
    assert pods_that(site.output, "comes back without a GPU") == VICTIMS, site.output
    assert pods_that(site.output, "has to leave") == VICTIMS, site.output
    assert site.schedulers == {SCHEDULER}
    # The policy of the last chapter was an upgrade: since then the command line finds the booking server.
    config = ("get", "configmap", names.CLIENT_CONFIG, f"--namespace={names.NAMESPACE}")
    assert site.cluster.kubectl(*config, "--output=jsonpath={.data.server}") == site.parts.booking_url


def test_a_hubs_notebook_is_served_by_its_users_booking_and_people_stay_in_their_namespaces(
    site: Site,
) -> None:
    hers, his = site.namespace("team-a", "alice"), site.namespace("team-b", "bob")
    alice, bob, hub = site.somebody("alice", hers), site.somebody("bob", his), site.hub(hers)
    for who in (alice.kube, hub):
        with pytest.raises(Forbidden):
            who.create(PODS, a100("stranger"), namespace=his.namespace)
    # He is no hub: what he says of whose his pod is counts for nothing.
    pods = [bob.create(notebook(f"bob-{number}", "alice")) for number in range(A100S)]
    his.await_phase(pods)
    before = {name: his.pod(name) for name in pods}
    booking = alice.book(namespace=hers.namespace)
    hub.create(PODS, notebook("notebook", "alice"), namespace=hers.namespace)
    hers.await_phase(["notebook"])
    served = hers.pod("notebook")
    assert served.metadata.annotation(names.USER) == "alice"
    assert served.metadata.annotation(names.BOOKING) == booking
    hers.check_agreement("notebook")
    (gone,) = evicted(his, before)
    await_back(his, before[gone])
    assert {pod.metadata.annotation(names.USER) for pod in before.values()} == {"bob"}


def test_maias_tools_are_answered_inside_the_cluster_and_its_annotations_count(site: Site) -> None:
    books, maia = site.namespace("notebooks"), site.namespace(OF_MAIA)
    hub, now = site.hub(books), SystemClock().now()
    granted = [notebook(f"granted-{n}", "bob", until=text_of(now + timedelta(hours=1))) for n in range(2)]
    late = [notebook(f"late-{n}", "bob", until=LONG_AGO) for n in range(A100S - 2)]
    pods = [hub.create(PODS, body, namespace=books.namespace).metadata.name for body in (*granted, *late)]
    books.await_phase(pods)
    before = {name: books.pod(name) for name in pods}
    door, her = f"http://{TERMINATOR}:8080", {"user_email": "alice@example.org", "namespace": "notebooks"}
    request = {
        "starting_time": f"{now:%Y-%m-%d %H:%M:%S}",
        "ending_time": f"{now + timedelta(days=2):%Y-%m-%d %H:%M:%S}",
        "gpu": A100,
    }
    expired = sorted(name for name in pods if name.startswith("late"))

    answers = ask(
        site,
        maia,
        ("GET", f"{door}/get-expired-pods", None),
        ("POST", f"{door}/random-delete", {}),
        ("POST", f"{door}/delete-expired-pod", {"pod_name": "granted-0", "namespace": books.namespace}),
        ("POST", SCHEDULABILITY, {**her, "token": "another"}),
        ("POST", SCHEDULABILITY, {**her, "token": SHOWN}),
        ("GET", STATS, None),
        ("POST", SCHEDULABILITY, {**her, "token": SHOWN, "booking": request}),
    )
    assert answers[0] == (200, {"status": "success", "expired_pods": expired})
    assert (answers[1][0], answers[1][1]["deleted_pod"]) == (200, "")
    assert answers[2] == (400, {"status": "error", "message": "Pod is not expired"})
    assert answers[3][0] == 403
    assert answers[4] == (200, {"schedulable": False, "until": None})
    assert answers[5][1]["gpu"][A100] == 0
    assert answers[6] == (200, {"message": "Booking created successfully"})

    hub.create(PODS, notebook("booked", "alice"), namespace=books.namespace)
    books.await_phase(["booked"])
    (left,) = evicted(books, before)
    assert left in expired
    await_back(books, before[left])

    (ends,) = set(expired) - {left}
    schedulability, ended = ask(
        site,
        maia,
        ("POST", SCHEDULABILITY, {**her, "token": SHOWN}),
        ("POST", f"{door}/delete-expired-pod", {"pod_name": ends, "namespace": books.namespace}),
    )
    assert (schedulability[1]["schedulable"], schedulability[1]["gpu"]) == (True, A100)
    assert ended == (200, {"status": "success", "deleted_pod": ends})
    await_back(books, before[ends])
    for body in granted:
        name = body["metadata"]["name"]
        pod = books.pod(name)
        assert pod.metadata.uid == before[name].metadata.uid
        assert (
            pod.metadata.annotation(names.TERMINATE_AT) == body["metadata"]["annotations"][names.TERMINATE_AT]
        )
