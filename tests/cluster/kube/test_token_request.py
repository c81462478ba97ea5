"""The account and the audience of a token, as written in the token itself."""

import base64
import json
from datetime import UTC, datetime

import pytest

from cluster import names
from cluster.kube.token_request import account_of, end_of

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


@pytest.mark.parametrize("shown", ["opaque", token(), token(exp="x"), token(exp=1e300)])
def test_the_end_of_a_token_is_known_only_if_it_says_so(shown: str) -> None:
    assert end_of(token(exp=1800000000)) == datetime(2027, 1, 15, 8, tzinfo=UTC)
    assert end_of(shown) is None
