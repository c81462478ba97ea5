"""When a Binding is posted, and what follows from each answer of the API server."""

from collections.abc import Callable
from typing import Any

import pytest

from cluster import names
from cluster.decide.ledger import WHOLE
from cluster.decide.ledger.amounts import Uses
from cluster.fake.server import FakeKube
from cluster.kube.errors import ApiError, Conflict, Malformed, Refusal, Request, Unreachable, Unsent, refused
from extender.binding.bind_decision import NOT_LEADING, BindDecisions, BindError, Decision
from extender.binding.binding_post import CONNECTING, DEADLINE, BindingPost
from extender.leadership import always
from tests.extender.cluster import Cluster
from tests.fakes.objects import a_pod

POST = Request("POST", "/binding")
HELD = {"GPU-n0-0": WHOLE}
TOO_OLD = f"{names.NOT_NOW} The decision was too old to be written; it is made again."
UNKNOWN = (
    f"{names.NOT_NOW} The API server has not said whether the pod is bound; the same bind is tried again."
)
UNSENT = f"{names.NOT_NOW} The API server could not be reached in time; the pod is decided again."


class Timed(FakeKube):
    """An API server that records how much time a post has."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.clock)
        self.times: list[tuple[float, float]] = []

    def create_subresource(self, *args: Any, **named: Any) -> None:
        """Record it, then do it."""
        self.times.append((named["within"], named["answered"]))
        super().create_subresource(*args, **named)


class Posting:
    """A decision about one pod, and what posts it."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.add_node("n0")
        self.kube = self.cluster.kube = Timed(self.cluster)
        self.pod = self.cluster.create(a_pod().asks(1))
        self.decisions = BindDecisions(self.cluster.state, self.cluster.clock)
        self.decision = self.decisions.make(self.pod, "n0")

    def post(
        self, *, until: float = 4, leads: Callable[[], bool] = always, decision: Decision | None = None
    ) -> str:
        """The refusal, empty where the pod is bound."""
        post = BindingPost(self.kube, self.cluster.clock, self.decisions, leads=leads)
        try:
            post(decision or self.decision, until=until)
        except BindError as error:
            return str(error)
        return ""

    @property
    def held(self) -> Uses:
        return self.cluster.view().held


@pytest.fixture
def posting() -> Posting:
    return Posting()


# --- answers ---------------------------------------------------------------------------------------------


def a_refusal(code: int, reason: str) -> ApiError:
    return refused(POST, Refusal(code=code, reason=reason, message="a webhook's long reason"))


CERTAIN = [
    (a_refusal(400, "BadRequest"), "The API server refused the Binding (400 BadRequest)."),
    (a_refusal(403, "Forbidden"), "The API server refused the Binding (403 Forbidden)."),
    (a_refusal(404, "NotFound"), "The API server refused the Binding (404 NotFound)."),
    (a_refusal(410, "Gone"), "The API server refused the Binding (410 Gone)."),
    (a_refusal(413, "TooLarge"), "The API server refused the Binding (413 TooLarge)."),
    (a_refusal(422, "Invalid"), "The API server refused the Binding (422 Invalid)."),
    (
        a_refusal(401, "Unauthorized"),
        f"{names.NOT_NOW} The API server refused the Binding (401 Unauthorized).",
    ),
    (a_refusal(429, "Busy"), f"{names.NOT_NOW} The API server refused the Binding (429 Busy)."),
    (Unsent(POST, "connection refused"), UNSENT),
]
UNCERTAIN = [
    a_refusal(500, "InternalError"),
    a_refusal(503, "ServiceUnavailable"),
    a_refusal(504, "Timeout"),
    Unreachable(POST, "reset by peer"),
    Malformed(POST, "no JSON"),
]


@pytest.mark.parametrize(("answer", "message"), CERTAIN, ids=lambda case: str(case)[:60])
def test_l1_a_certainly_failed_repeat_does_not_take_back_the_first_post(
    posting: Posting, answer: ApiError, message: str
) -> None:
    repeat = posting.decisions.renew(posting.decision.assumed)
    posting.kube.fail("POST", answer)
    assert posting.post(decision=repeat) == message
    assert posting.held == HELD


@pytest.mark.parametrize("answer", UNCERTAIN, ids=lambda case: type(case).__name__)
@pytest.mark.parametrize("is_repeat", [False, True])
def test_l1_a_decision_whose_post_may_have_succeeded_is_kept(
    posting: Posting, answer: ApiError, *, is_repeat: bool
) -> None:
    decision = posting.decisions.renew(posting.decision.assumed) if is_repeat else posting.decision
    posting.kube.fail("POST", answer)
    assert posting.post(decision=decision) == UNKNOWN
    assert posting.held == HELD


@pytest.mark.parametrize(("is_repeat", "held"), [(False, {}), (True, HELD)])
def test_a_conflict_is_left_to_the_caller_to_judge_by_the_present_pod(
    posting: Posting, held: Uses, *, is_repeat: bool
) -> None:
    decision = posting.decisions.renew(posting.decision.assumed) if is_repeat else posting.decision
    posting.cluster.label("p", app="changed")
    with pytest.raises(Conflict):
        posting.post(decision=decision)
    assert posting.held == held
    assert posting.cluster.stored().spec.node_name is None


def test_refusals_for_the_same_reason_have_the_same_text(posting: Posting) -> None:
    """kube-scheduler writes it on the pod, and tries a changed pod again at once."""
    messages, decision = set(), posting.decision
    for message in ("request 1 of node n0", "request 2 of node n0"):
        posting.kube.fail("POST", refused(POST, Refusal(code=403, reason="Forbidden", message=message)))
        messages.add(posting.post(decision=decision))
        decision = posting.decisions.make(posting.pod, "n0")
    assert len(messages) == 1


# --- leadership and time ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_repeat", "held"), [(False, {}), (True, HELD)])
def test_l6_an_extender_that_has_lost_the_lead_since_its_decision_posts_nothing(
    posting: Posting, held: Uses, *, is_repeat: bool
) -> None:
    decision = posting.decisions.renew(posting.decision.assumed) if is_repeat else posting.decision
    assert posting.post(decision=decision, leads=lambda: False) == NOT_LEADING
    assert posting.cluster.bindings() == []
    assert posting.held == held


@pytest.mark.parametrize(
    ("age", "until", "posted"),
    [
        (0, 4, True),
        (DEADLINE - CONNECTING, 4, True),
        (DEADLINE - CONNECTING + 0.25, 4, False),
        (DEADLINE + 60, 200, False),
        (0, CONNECTING, True),
        (0, CONNECTING - 0.25, False),
        (0.5, 1.25, False),
        (0, -1, False),
    ],
)
def test_a_binding_is_posted_only_where_there_is_time_to_connect(
    posting: Posting, age: float, until: float, *, posted: bool
) -> None:
    posting.cluster.clock.advance(age)
    assert posting.post(until=until) == ("" if posted else TOO_OLD)
    assert posting.cluster.bindings() == (["n0"] if posted else [])
    assert posting.held == (HELD if posted else {})


@pytest.mark.parametrize(
    ("age", "until", "within", "answered"),
    [
        (0, 4, DEADLINE, 4),
        (0.5, 4, DEADLINE - 0.5, 3.5),
        (0, 1.5, 1.5, 1.5),
        (0.25, 9, DEADLINE - 0.25, 8.75),
    ],
)
def test_connecting_is_bounded_by_the_decision_and_the_answer_by_the_caller(
    posting: Posting, age: float, until: float, within: float, answered: float
) -> None:
    posting.cluster.clock.advance(age)
    posting.post(until=until)
    assert posting.kube.times == [(within, answered)]


def test_l6_the_time_of_the_leadership_check_counts(posting: Posting) -> None:
    def slowly() -> bool:
        posting.cluster.clock.advance(DEADLINE - CONNECTING + 0.25)
        return True

    assert posting.post(leads=slowly) == TOO_OLD
    assert posting.cluster.bindings() == []


def test_a_failure_before_anything_is_sent_takes_the_decision_back_and_is_raised(posting: Posting) -> None:
    def broken() -> bool:
        raise RuntimeError("nobody has thought of this")

    with pytest.raises(RuntimeError, match="nobody has thought of this"):
        posting.post(leads=broken)
    assert posting.held == {}
