"""A reason is a string with a code, and its message depends on nothing but the pod."""

import pickle

import msgspec
import pytest

from cluster.decide import reasons
from cluster.decide.reasons import Cause, Reason

CAUSE = Cause("no-such", "no GPU{} here", "node(s) had no GPU{}", "another node")
REASON = CAUSE.reason(" of model x")


def _each(causes: tuple[Cause, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("cause", causes, ids=[cause.code for cause in causes])


# --- a reason ----------------------------------------------------------------------------------------
def test_a_reason_is_its_message_and_knows_its_code() -> None:
    assert isinstance(REASON, Reason)
    assert (REASON, REASON.code) == ("no GPU of model x here", "no-such")


def test_a_reason_for_the_scheduler_reads_after_a_number_and_ends_with_its_code() -> None:
    assert REASON.with_code == "node(s) had no GPU of model x [no-such]"


def test_reasons_with_the_same_message_are_the_same_key() -> None:
    counted: dict[str, int] = {REASON: 1}
    assert counted["no GPU of model x here"] == counted[CAUSE.reason(" of model x")] == 1
    assert CAUSE.reason(" of model y") not in counted


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_reason_keeps_its_code(protocol: int) -> None:
    sent = pickle.loads(pickle.dumps(REASON, protocol))  # noqa: S301 -- our own
    assert (type(sent), sent, sent.with_code) == (Reason, REASON, REASON.with_code)


def test_for_the_scheduler_a_reason_is_a_plain_string_that_can_be_written_as_json() -> None:
    assert (
        msgspec.json.encode({"n0": REASON.with_code}) == b'{"n0":"node(s) had no GPU of model x [no-such]"}'
    )


def test_a_detail_is_written_as_it_is_even_if_it_looks_like_a_pattern() -> None:
    assert CAUSE.reason(" {0} {} %s") == "no GPU {0} {} %s here"


def test_a_message_about_all_nodes_keeps_the_code_of_its_cause() -> None:
    found = CAUSE.of_all("no node has {}")
    assert (found, found.code) == ("no node has {}", "no-such")


# --- the table ---------------------------------------------------------------------------------------
@_each(reasons.ALL)
def test_a_message_never_changes_by_itself(cause: Cause) -> None:
    """No count and no time: kube-scheduler writes it on the pod, and a changed pod is tried again at once."""
    for text in (cause.pattern, cause.counted):
        assert not any(letter.isdigit() for letter in text)
        assert text.count("{") == text.count("}") == text.count("{}") <= 1
    assert cause.reason(" x") == cause.reason(" x")


@_each(reasons.ALL)
def test_each_cause_has_a_remedy_in_a_clause_without_placeholders(cause: Cause) -> None:
    assert cause.change
    assert "{}" not in cause.change
    for text in (cause.pattern, cause.counted, cause.change):
        assert text == text.strip().removesuffix(".")


def test_a_soft_reservation_is_reported_only_when_nothing_else_is_wrong() -> None:
    assert reasons.ALL[-1] is reasons.RESERVED
    assert reasons.ALL[0] is reasons.ELSEWHERE
