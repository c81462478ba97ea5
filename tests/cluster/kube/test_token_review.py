"""The user of a token, by the answers of an API server."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from cluster.fake.clock import FakeClock
from cluster.kube.client import KubeClient
from cluster.kube.connection import Connection, NoToken
from cluster.kube.errors import Forbidden
from cluster.kube.token_review import Subject, TokenReviews
from tests.fakes.apiserver import Answer, ScriptedServer, scripted_server


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running


def reviews(server: ScriptedServer, *audiences: str) -> TokenReviews:
    kube = KubeClient(Connection(server=server.url, credentials=NoToken()), FakeClock(), user_agent="tests/1")
    return TokenReviews(kube, audiences or ("gpu-booking",))


def says(**status: Any) -> Answer:
    return Answer(status=201, body=msgspec.json.encode({"metadata": {}, "status": status}))


ALICE = {"username": "alice", "uid": "1", "groups": ["system:authenticated"]}


def test_a_token_for_our_audience_identifies_its_user(server: ScriptedServer) -> None:
    server.answers(says(authenticated=True, user=ALICE, audiences=["gpu-booking"]))

    assert reviews(server).owner_of("secret") == Subject("alice", frozenset({"system:authenticated"}))
    request = server.received[0]
    assert (request.verb, request.target) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
    assert msgspec.json.decode(request.body) == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "secret", "audiences": ["gpu-booking"]},
    }


def test_one_of_several_audiences_is_enough(server: ScriptedServer) -> None:
    server.answers(says(authenticated=True, user=ALICE, audiences=["b"]))

    assert reviews(server, "a", "b").owner_of("secret") is not None


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"authenticated": False, "error": "expired"}, id="refused"),
        pytest.param({}, id="an empty status"),
        pytest.param({"user": ALICE, "audiences": ["gpu-booking"]}, id="a user but not authenticated"),
        pytest.param({"authenticated": True, "user": ALICE}, id="good for the API server alone"),
        pytest.param({"authenticated": True, "user": ALICE, "audiences": ["x"]}, id="another audience"),
        pytest.param({"authenticated": True, "user": {}, "audiences": ["gpu-booking"]}, id="no name"),
    ],
)
def test_any_other_token_identifies_no_user(server: ScriptedServer, status: dict[str, Any]) -> None:
    server.answers(says(**status))

    assert reviews(server).owner_of("secret") is None


def test_an_error_contains_what_failed_and_not_the_token(server: ScriptedServer) -> None:
    server.answers(Answer(status=403, body=b'{"reason": "Forbidden", "message": "you may not"}'))

    with pytest.raises(Forbidden) as caught:
        reviews(server).owner_of("secret")
    assert "tokenreviews" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_without_an_audience_the_api_server_is_not_asked() -> None:
    with scripted_server() as server, pytest.raises(ValueError, match="audience"):
        TokenReviews(
            KubeClient(Connection(server=server.url), FakeClock(), user_agent="tests/1"), audiences=()
        )
