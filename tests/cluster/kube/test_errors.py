import pytest

from cluster.kube import errors
from cluster.kube.errors import Request, refusal_of, refused

REQUEST = Request("GET", "/api/v1/nodes")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, errors.BadRequest),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (405, errors.ClientError),
        (409, errors.Conflict),
        (410, errors.Gone),
        (422, errors.Unprocessable),
        (429, errors.TooManyRequests),
        (500, errors.ServerError),
        (503, errors.ServerError),
    ],
)
def test_every_status_has_its_error(code: int, kind: type[errors.StatusError]) -> None:
    assert type(refused(REQUEST, refusal_of(code, b"{}"))) is kind


def test_an_error_is_a_message_with_the_servers_words() -> None:
    body = b'{"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "nodes is forbidden"}'
    error = refused(REQUEST, refusal_of(403, body))
    assert str(error) == "GET /api/v1/nodes was answered with 403 Forbidden: nodes is forbidden"


@pytest.mark.parametrize("body", [b"<html>bad gateway</html>", b"", b"null", b"[1]"])
def test_an_answer_of_a_proxy_is_an_error_too(body: bytes) -> None:
    error = refused(REQUEST, refusal_of(502, body))
    assert isinstance(error, errors.ServerError)
    assert error.code == 502


def test_the_pause_that_the_server_asks_for_is_in_the_header_or_in_the_details() -> None:
    assert refusal_of(429, b"{}", retry_after="7").retry_after == 7
    assert refusal_of(429, b'{"details": {"retryAfterSeconds": 3}}').retry_after == 3
    assert refusal_of(429, b"{}", retry_after="Wed, 21 Oct 2026 07:28:00 GMT").retry_after is None


def test_creating_an_object_that_exists_is_an_already_exists_error() -> None:
    error = refused(REQUEST, refusal_of(409, b'{"reason": "AlreadyExists"}'))
    assert isinstance(error, errors.Conflict)
    assert error.reason == "AlreadyExists"
