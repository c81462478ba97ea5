"""A client that retries through faults distinguishes transient errors from final refusals."""

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.kube.errors import ApiError, Forbidden, Refusal, Request, TooManyRequests, Unreachable
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.laws.broken import LawBrokenError
from tests.long.fire.patience import Patience, Patient

REQUEST = Request("POST", "/api/v1/namespaces/research/pods")
BODY = {"metadata": {"name": "train"}}


class Alice:
    """Whose requests are answered with one error after the other, and then granted."""

    name = "alice"

    def __init__(self, *answers: ApiError) -> None:
        self._answers: Iterator[ApiError] = iter(answers)
        self.created: list[str] = []

    def create(self, body: Mapping[str, Any]) -> str:
        for error in self._answers:
            raise error
        self.created.append(body["metadata"]["name"])
        return self.created[-1]


class Laws:
    """Asked so many times before one is broken; never, where nothing is said."""

    def __init__(self, *, hold_for: int | None = None) -> None:
        self._left = hold_for

    def check(self) -> None:
        if self._left == 0:
            raise LawBrokenError("L2", "hers is deleted")
        self._left = None if self._left is None else self._left - 1


def ground(laws: Laws) -> Playground:
    """No cluster, but somebody who watches the laws."""
    return cast("Playground", SimpleNamespace(laws=laws))


def forbidden(why: str) -> Forbidden:
    return Forbidden(REQUEST, Refusal(403, "Forbidden", f"pods is forbidden: {why}"))


def creates(alice: Alice) -> None:
    nowhere = ground(Laws())
    Patient(cast("Person", alice), nowhere, Patience(nowhere, 60)).create(BODY)


@pytest.mark.parametrize(
    "problem",
    [
        forbidden('User "alice" cannot create resource "pods" in API group "" in the namespace "research"'),
        forbidden("not yet ready to handle request"),
        TooManyRequests(REQUEST, Refusal(429, "TooManyRequests", "try again")),
        Unreachable(REQUEST, "connection refused"),
    ],
    ids=["no role bindings read yet", "admission not ready", "overload", "no answer"],
)
def test_a_request_is_repeated_after_an_error_of_an_api_server_that_has_just_started(
    problem: ApiError,
) -> None:
    alice = Alice(problem, problem)
    creates(alice)
    assert alice.created == ["train"]


@pytest.mark.parametrize(
    "problem", [None, Unreachable(REQUEST, "connection refused")], ids=["no", "no answer"]
)
def test_a_law_broken_during_a_wait_is_raised_at_once(problem: ApiError | None) -> None:
    attempts: list[str] = []

    def never() -> None:
        attempts.append("again")
        assert len(attempts) < 5, "nobody checks the laws"
        if problem:
            raise problem

    with pytest.raises(LawBrokenError, match="hers is deleted"):
        Patience(ground(Laws(hold_for=2)), 60).until("she is served", never)
    assert len(attempts) == 2


def test_a_refusal_by_admission_is_raised_at_once() -> None:
    alice = Alice(forbidden("admission webhook denied the request: the priority class is ours"))
    with pytest.raises(AssertionError, match=r"train was refused: .*the priority class is ours"):
        creates(alice)
    assert not alice.created
