"""The account and the audience of a token, as written in the token itself."""

import base64
import json

import pytest

from cluster import names
from cluster.kube.token_request import account_of

ALICE = "system:serviceaccount:research:alice"


def token(**claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{payload}.signature"


def test_a_service_account_s_token_for_the_api_server_must_be_exchanged() -> None:
    for audience in ("https://kubernetes.default.svc", ["https://kubernetes.default.svc"]):
        assert account_of(token(sub=ALICE, aud=audience), names.AUDIENCE) == ("research", "alice")


def test_a_token_for_our_audience_is_used_as_it_is() -> None:
    assert account_of(token(sub=ALICE, aud=["other", names.AUDIENCE]), names.AUDIENCE) is None


@pytest.mark.parametrize(
    "shown",
    [
        token(sub="alice", aud="kubernetes"),
        token(sub="system:serviceaccount:research"),
        token(aud=[1]),
        "opaque",
        "a.b.c",
        "",
        "\u00e9.\u00e9.\u00e9",
    ],
)
def test_a_token_of_anybody_but_a_service_account_is_used_as_it_is(shown: str) -> None:
    assert account_of(shown, names.AUDIENCE) is None
