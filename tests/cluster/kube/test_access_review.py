"""What a user may do, by the answers of an API server."""

from collections.abc import Iterator

import msgspec
import pytest

from cluster.fake.clock import FakeClock
from cluster.kube.access_review import AccessReviews, Permission, may_i
from cluster.kube.client import KubeClient
from cluster.kube.connection import Connection, NoToken
from cluster.kube.errors import Forbidden
from cluster.kube.token_review import Subject
from tests.fakes.apiserver import Answer, ScriptedServer, scripted_server

ALICE = Subject("alice", frozenset({"staff", "a"}))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running


def client(server: ScriptedServer) -> KubeClient:
    return KubeClient(Connection(server=server.url, credentials=NoToken()), FakeClock(), user_agent="tests/1")


def may(server: ScriptedServer) -> bool:
    return AccessReviews(client(server)).may(ALICE, "administer", group="example.org", resource="bookings")


def test_the_api_server_is_asked_with_name_and_groups(server: ScriptedServer) -> None:
    server.answers(Answer(status=201, body=b'{"metadata": {}, "status": {"allowed": true}}'))

    assert may(server)
    request = server.received[0]
    assert (request.verb, request.target) == ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
    assert msgspec.json.decode(request.body) == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "alice",
            "groups": ["a", "staff"],
            "resourceAttributes": {"group": "example.org", "resource": "bookings", "verb": "administer"},
        },
    }


@pytest.mark.parametrize("status", [b'{"allowed": false}', b'{"denied": true}', b"{}"])
def test_an_answer_without_allowed_is_a_refusal(server: ScriptedServer, status: bytes) -> None:
    server.answers(Answer(status=201, body=b'{"metadata": {}, "status": ' + status + b"}"))

    assert not may(server)


def test_a_review_that_the_server_refuses_is_an_error_and_not_a_denial(server: ScriptedServer) -> None:
    server.answers(Answer(status=403, body=b'{"reason": "Forbidden", "message": "you may not"}'))

    with pytest.raises(Forbidden):
        may(server)


def test_a_subresource_is_asked_for_as_one(server: ScriptedServer) -> None:
    server.answers(Answer(status=201, body=b'{"metadata": {}, "status": {"allowed": true}}'))

    assert may_i(client(server), Permission("patch", "nodes/status"))
    assert msgspec.json.decode(server.received[0].body)["spec"]["resourceAttributes"] == {
        "group": "",
        "resource": "nodes",
        "subresource": "status",
        "verb": "patch",
    }
