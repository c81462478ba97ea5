"""What a refused eviction means: a disruption budget, an overloaded API server, or something else."""

from pathlib import Path

import msgspec
import pytest

from booking.controller.reclaimer.evictions.refusals import is_of_budgets, is_overload, protected_by
from cluster.kube.errors import Refusal, Request, refusal_of, refused
from cluster.objects.disruption_budgets import DisruptionBudget
from cluster.objects.meta import Meta

REQUEST = Request("POST", "/api/v1/namespaces/team/pods/p/eviction")
ANSWER = Path(__file__).parents[4] / "fixtures/kube/eviction_pdb_429.json"
KEEP, TOO = (DisruptionBudget(metadata=Meta(name=name, namespace="team")) for name in ("keep", "keep-too"))
NEGATIVE = Refusal(code=403, reason="Forbidden", details={"kind": "poddisruptionbudget", "name": "keep"})
WEBHOOK = Refusal(code=429, reason="TooManyRequests", message='admission webhook "x" denied the request')


@pytest.mark.parametrize(
    ("refusal", "budgets", "expected"),
    [
        (refusal_of(429, ANSWER.read_bytes()), (KEEP,), True),
        (refusal_of(429, ANSWER.read_bytes()), (), True),
        (NEGATIVE, (KEEP,), True),
        (Refusal(code=500), (KEEP, TOO), True),
        (Refusal(code=500), (KEEP,), False),
        (WEBHOOK, (KEEP,), False),
        (Refusal(code=403), (KEEP, TOO), False),
    ],
)
def test_budgets_are_known_by_their_answers(
    refusal: Refusal, budgets: tuple[DisruptionBudget, ...], *, expected: bool
) -> None:
    assert is_of_budgets(refused(REQUEST, refusal), budgets) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"Too many requests, please try again later.", True),
        (msgspec.json.encode({"kind": "Status", "code": 429, "message": "denied"}), False),
    ],
)
def test_an_overloaded_server_answers_in_plain_text_and_a_webhook_by_a_status(
    body: bytes, *, expected: bool
) -> None:
    assert is_overload(refused(REQUEST, refusal_of(429, body))) is expected


@pytest.mark.parametrize("budgets", [(), (KEEP,), (KEEP, TOO)])
def test_budgets_are_named_with_their_namespace(budgets: tuple[DisruptionBudget, ...]) -> None:
    why = protected_by(budgets, "team")
    assert all(one.key in why.why for one in budgets)
    assert "team" in why.why
    assert why.budgets == tuple(one.key for one in budgets)
