import stat
from pathlib import Path

import msgspec
import pytest

from cluster.decide.identity import Rule, user_of
from devcluster.product.people import IDENTITY_RULES, NAMESPACE, USERS, People
from tests.devcluster.product.cluster import FakeCluster


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    return FakeCluster(tmp_path)


@pytest.fixture
def people(cluster: FakeCluster, tmp_path: Path) -> People:
    return People(cluster, tmp_path)


@pytest.mark.parametrize(
    ("raw", "user"),
    [
        ("system:serviceaccount:research:alice", "alice"),
        ("system:serviceaccount:research:bob", "bob"),
        ("system:serviceaccount:research:default", None),
        ("system:serviceaccount:elsewhere:alice", None),
        ("alice", None),
        ("administrator", None),
    ],
)
def test_only_the_accounts_of_people_in_research_are_users(raw: str, user: str | None) -> None:
    rules = msgspec.json.decode(IDENTITY_RULES, type=tuple[Rule, ...])
    assert user_of("kubernetes", raw, rules) == user


def test_each_person_gets_an_account_and_may_edit_in_the_common_namespace(
    people: People, cluster: FakeCluster
) -> None:
    people.create()
    (applied,) = cluster.given
    made = [(item["kind"], item["metadata"]["name"]) for item in applied["items"]]
    assert made[0] == ("Namespace", NAMESPACE)
    assert {("ServiceAccount", user) for user in USERS} <= set(made)
    bindings = [item for item in applied["items"] if item["kind"] == "RoleBinding"]
    assert {binding["roleRef"]["name"] for binding in bindings} == {"edit"}
    assert {binding["metadata"]["namespace"] for binding in bindings} == {NAMESPACE}


def test_a_person_admitted_to_another_namespace_keeps_the_account(
    people: People, cluster: FakeCluster
) -> None:
    people.admit("bob", "elsewhere")
    (binding,) = cluster.given[0]["items"]
    assert binding["metadata"]["namespace"] == "elsewhere"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "bob", "namespace": NAMESPACE}]


def test_a_token_is_for_the_api_server_unless_an_audience_is_named(
    people: People, cluster: FakeCluster
) -> None:
    assert people.token("alice") == "a-token"
    people.token("alice", "gpu-booking")
    plain, ours = cluster.words
    assert not [word for word in plain if "audience" in word]
    assert "--audience=gpu-booking" in ours


def test_a_kubeconfig_is_readable_by_its_owner_alone(people: People) -> None:
    path = people.kubeconfig("alice")
    assert path.read_text() == "alice with a-token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
