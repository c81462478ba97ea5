"""A reason is a string with a code, and its message depends on nothing but the pod."""

import copy
import pickle
from dataclasses import FrozenInstanceError

import msgspec
import pytest

from cluster import names
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


def test_a_reason_has_room_for_nothing_but_message_and_code() -> None:
    assert not hasattr(REASON, "__dict__")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_reason_keeps_its_code(protocol: int) -> None:
    sent = pickle.loads(pickle.dumps(REASON, protocol))  # noqa: S301 -- our own
    assert (type(sent), sent, sent.with_code) == (Reason, REASON, REASON.with_code)


def test_a_copy_of_a_reason_keeps_its_code() -> None:
    assert copy.copy(REASON).code == copy.deepcopy([REASON])[0].code == "no-such"


def test_for_the_scheduler_a_reason_is_a_plain_string_that_can_be_written_as_json() -> None:
    assert (
        msgspec.json.encode({"n0": REASON.with_code}) == b'{"n0":"node(s) had no GPU of model x [no-such]"}'
    )


# --- a cause -----------------------------------------------------------------------------------------
def test_without_a_detail_nothing_is_written_in_its_place() -> None:
    assert CAUSE.reason() == "no GPU here"


def test_a_detail_is_written_as_it_is_even_if_it_looks_like_a_pattern() -> None:
    assert CAUSE.reason(" {0} {} %s") == "no GPU {0} {} %s here"


def test_a_cause_without_a_detail_has_the_same_message_for_every_pod() -> None:
    constant = Cause("reserved", "it is reserved", "node(s) were reserved", "nothing")
    assert constant.reason(" of model x") == constant.reason() == "it is reserved"


def test_a_message_about_all_nodes_keeps_the_code_of_its_cause() -> None:
    found = CAUSE.of_all("no node has {}")
    assert (found, found.code) == ("no node has {}", "no-such")


def test_a_cause_is_not_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        CAUSE.code = "other"


# --- the table ---------------------------------------------------------------------------------------
@_each(reasons.ALL)
def test_a_message_never_changes_by_itself(cause: Cause) -> None:
    """No count and no time: kube-scheduler writes it on the pod, and a changed pod is tried again at once."""
    for text in (cause.pattern, cause.counted):
        assert not any(letter.isdigit() for letter in text)
        assert text.count("{") == text.count("}") == text.count("{}") <= 1
    assert cause.reason(" x") == cause.reason(" x")


@_each(reasons.ALL)
def test_a_message_for_the_scheduler_reads_after_its_count_as_its_own_do(cause: Cause) -> None:
    assert cause.reason("x").with_code.startswith(("node(s) had ", "node(s) were "))
    assert ("{}" in cause.counted) == ("{}" in cause.pattern)


@_each(reasons.ALL)
def test_each_cause_has_a_remedy_in_a_clause_without_placeholders(cause: Cause) -> None:
    assert cause.change
    assert "{}" not in cause.change
    for text in (cause.pattern, cause.counted, cause.change):
        assert text == text.strip().removesuffix(".")


def test_no_two_causes_have_the_same_message() -> None:
    messages = [cause.reason(" of model x") for cause in reasons.ALL]
    assert len(set(messages)) == len(messages)


@_each((reasons.NO_SUCH, reasons.TOO_MANY_SUCH, reasons.MIXED_MODELS, reasons.UNHEALTHY, reasons.IN_USE))
def test_a_cause_about_certain_gpus_names_them_right_after_the_word_gpus(cause: Cause) -> None:
    message = cause.reason(" of model x")
    assert "GPU of model x " in message or "GPUs of model x " in message


def test_a_cause_about_another_node_names_it() -> None:
    assert reasons.ELSEWHERE.reason("n1") == "GPUs of node n1 are kept for this pod"


def test_unreadable_annotations_are_reported_as_their_reader_reports_them() -> None:
    assert reasons.UNREADABLE.reason("its inventory is not JSON") == "its inventory is not JSON"


def test_the_reason_for_refused_mixed_models_names_the_annotation_to_allow_them() -> None:
    assert names.MODEL in reasons.MIXED_MODELS.change


def test_a_soft_reservation_is_reported_only_when_nothing_else_is_wrong() -> None:
    assert reasons.ALL[-1] is reasons.RESERVED
    assert reasons.ALL[0] is reasons.ELSEWHERE
