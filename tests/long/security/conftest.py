"""One cluster with all of our parts, whose API server records all requests, and all attackers."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from cluster import names
from cluster.fake.clock import eventually
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.demo.rest import Rest
from devcluster.fakenvml import default_gpus
from devcluster.product import Parts
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.playground import PATIENCE
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.controlplane.policies.policed import HOME, US, People, Somebody, a_pod, is_denied, pods
from tests.long.security.attempts import BOOKINGS, LEASES, OTHERS, a_booking
from tests.long.security.audited import Trail

HURRIED: Final = "hurried"
"""A person who sends too many requests."""
KNOWN: Final = json.dumps(
    [
        {
            "source": "kubernetes",
            "match": f"system:serviceaccount:{HOME}:(alice|bob|administrator|{HURRIED})",
            "user": r"\1",
        }
    ]
)
SHOWN_BY_MAIA: Final = "what-maia-alone-shows"
ANYTHING: Final = [
    {
        "apiGroups": [names.DOMAIN],
        "resources": ["*"],
        "verbs": ["create", "get", "patch", "delete", "update"],
    },
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]},
]
"""What a cluster's operator may have been given without being an administrator of ours."""


@dataclass(frozen=True)
class Site:
    """The cluster and who tries."""

    cluster: Cluster
    parts: Parts
    people: People
    trail: Trail
    tries: dict[str, Somebody]
    """Name of the attacker -> their client."""
    users: dict[str, str]
    """Name of the attacker -> their user name at the API server."""
    theirs: str
    """A booking of bob's."""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("audit")
    trail = Trail(folder)
    nodes = (NodeSpec(name="node-a", gpus=default_gpus(0)),)
    spec = ClusterSpec(name=own("security"), nodes=nodes, apiserver_arguments=trail.arguments)
    with (
        Cluster.start(spec) as cluster,
        LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster)) as laws,
    ):
        parts = Parts(cluster, elects=True)  # with all the rights that the chart's has
        secret = folder / "maia-token"
        secret.write_text(SHOWN_BY_MAIA)
        settings = {names.setting("identity_rules"): KNOWN, names.setting("log_level"): "debug"}
        with_maia = {names.setting("maia_token_file"): str(secret)}
        parts.deploy(server=settings | with_maia, controller=settings)
        people = People(cluster)
        _make(people)
        bob = Rest(parts.booking_url, parts.people.token("bob", names.AUDIENCE))
        booked = bob.book(model="NVIDIA-A100-SXM4-80GB", count=1, duration="P1D")
        assert booked.status == 201, booked
        made = Site(cluster, parts, people, trail, *_tries(cluster, people), str(booked.body["id"]))
        # The API server learns of rights and policies a moment after they are made.
        eventually(
            lambda: is_denied(made.tries["operator"].create(BOOKINGS, a_booking("b-forged"))),
            deadline=PATIENCE,
        )
        eventually(
            lambda: people.alice.create(pods(), a_pod(gpus=1), dry=True).status == 201, deadline=PATIENCE
        )
        yield made
        laws.finish()


def _make(people: People) -> None:
    """What the tries are aimed at."""
    root = people.root
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    assert root.create("/api/v1/namespaces", {"metadata": {"name": OTHERS}}).status == 201
    for name in ("boss", "collector", HURRIED):
        account = {"metadata": {"name": name}}
        assert root.create(f"/api/v1/namespaces/{HOME}/serviceaccounts", account).status == 201
    anything = {"metadata": {"name": "anything"}, "rules": ANYTHING}
    assert root.create(f"{rbac}/clusterroles", anything).status == 201
    _bind(root, f"{rbac}/namespaces/{HOME}/rolebindings", "boss", "admin", HOME)
    _bind(root, f"{rbac}/clusterrolebindings", "collector", "anything", HOME)
    assert root.create(pods(OTHERS), a_pod(name="theirs")).status == 201
    assert root.create(pods(HOME), a_pod(name="own")).status == 201
    assert root.create("/api/v1/nodes", {"metadata": {"name": "node-b"}}).status == 201
    lease = {"metadata": {"name": names.node_lease("node-b")}}
    assert root.create(LEASES, lease).status == 201


def _bind(root: Somebody, path: str, account: str, role: str, namespace: str) -> None:
    body = {
        "metadata": {"name": f"{account}-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    assert root.create(path, body).status == 201


def _tries(cluster: Cluster, people: People) -> tuple[dict[str, Somebody], dict[str, str]]:
    """Everybody by name, with a token of their own, and their user names at the API server."""
    parts = (names.EXTENDER, names.SCHEDULER_ACCOUNT, names.CONTROLLER, names.BOOKING_SERVER)
    tries = {
        "nobody": Somebody(cluster, None),
        "user": people.alice,
        "namespace administrator": people.account(HOME, "boss"),
        "operator": people.account(HOME, "collector"),
        names.NODE_AGENT: people.account(US, names.NODE_AGENT, node="node-a"),
        **{part: people.account(US, part) for part in parts},
    }
    accounts = {"user": "alice", "namespace administrator": "boss", "operator": "collector"}
    users = {who: f"system:serviceaccount:{HOME}:{name}" for who, name in accounts.items()}
    users |= {part: f"system:serviceaccount:{US}:{part}" for part in (names.NODE_AGENT, *parts)}
    return tries, users | {"nobody": "system:anonymous"}
