"""One cluster with the chart's policies, our real webhook, and everybody who sends it requests."""

import json
from collections.abc import Iterator
from threading import Thread

import pytest

from cluster import names
from cluster.fake.clock import eventually
from devcluster.cluster import Cluster
from devcluster.product import Parts, chart
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.playground import PATIENCE
from tests.long.controlplane.policies.meddling import AFTER, BETWEEN, Meddler, meddled
from tests.long.controlplane.policies.policed import (
    BLIND,
    BY_FIELD,
    US,
    Json,
    People,
    Somebody,
    a_pod,
    is_denied,
    pods,
)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    nodes = (NodeSpec(name="node-a"),)
    with Cluster.start(ClusterSpec(name=own("policies"), nodes=nodes)) as running:
        yield running


@pytest.fixture(scope="session")
def values(cluster: Cluster) -> Json:
    values = chart.external_values(cluster.address)
    sharing = {
        "gpushareNodeStatus": True,
        "reservationPods": {"enabled": True, "image": "example.invalid/none"},
    }
    agents = {**values["nodeAgent"], "without": "labelled"}
    claims = {"enabled": True, "booking": True}
    return values | {"nodeAgent": agents, "dra": claims, "sharing": {**values.get("sharing", {}), **sharing}}


@pytest.fixture(scope="session")
def people(cluster: Cluster, values: Json) -> People:
    chart.install(cluster, values)
    parts = Parts(cluster)
    _let_nobody_lead(cluster)
    controller = parts.start_controller()
    people = People(cluster)
    # The API server learns of policies in the order in which they are made, and this is the last one.
    seeing = a_pod(container={"env": [BY_FIELD]})
    eventually(lambda: is_denied(people.alice.create(pods(BLIND), seeing, dry=True)), deadline=PATIENCE)
    eventually(lambda: parts.is_ready(controller), deadline=PATIENCE)
    eventually(lambda: people.alice.create(pods(), a_pod(gpus=1), dry=True).status == 201, deadline=PATIENCE)
    return people


@pytest.fixture(scope="session")
def meddler(cluster: Cluster, people: People, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with Meddler(tmp_path_factory.mktemp("meddler"), cluster.host_address) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        label = [{"op": "add", "path": "/metadata/labels/done", "value": "true"}]
        for name in (BETWEEN, AFTER):
            cluster.kubectl("create", "--filename=-", given=json.dumps(server.configuration(name)))
            pod = a_pod(**meddled(label, name))
            eventually(
                lambda pod=pod: (
                    "done" in people.alice.create(pods(), pod, dry=True).body["metadata"]["labels"]
                ),
                deadline=PATIENCE,
            )
        yield
        server.shutdown()
        thread.join()


@pytest.fixture
def pod(people: People) -> str:
    """Path of a pod of alice's with GPUs, and with a comeback's marks as our controller writes them."""
    path = f"{pods()}/{people.alice.create(pods(), a_pod(gpus=1)).body['metadata']['name']}"
    marks = {
        "annotations": {names.HOLD: "kept"},
        "labels": {names.COMEBACK: "true"},
        "finalizers": [names.COMEBACK],
    }
    assert people.controller.change(path, marks).status == 200
    return path


@pytest.fixture(scope="session")
def other_node(people: People) -> str:
    """Path of a Node that is not node-a."""
    path = "/api/v1/nodes"
    assert people.root.create(path, {"metadata": {"name": "node-b"}}).status == 201
    return f"{path}/node-b"


@pytest.fixture(scope="session")
def agent(people: People) -> Somebody:
    """The agent of node-a."""
    return people.account(US, names.NODE_AGENT, node="node-a")


def _let_nobody_lead(cluster: Cluster) -> None:
    """Our controller answers the webhook alone: its reclaimer would tidy up what tests write on pods."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": names.CONTROLLER_LEASE, "namespace": US},
        "spec": {
            "holderIdentity": "nobody",
            "leaseDurationSeconds": 86400,
            "renewTime": "2999-01-01T00:00:00.000000Z",
        },
    }
    cluster.kubectl("create", "--filename=-", given=json.dumps(lease))
