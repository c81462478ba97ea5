"""The verdicts on one request, and the text that kube-scheduler is sent."""

from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.predicates import CORDONED, NOT_PUBLISHED
from cluster.decide.reasons import IN_USE, Reason
from cluster.decide.request import gpu_request_of
from extender.state.equivalence_class import ClassAnswer, EquivalenceClass, uncached_answer
from extender.wire import ExtenderFilterResult
from tests.fakes.objects import a_pod

BUSY = IN_USE.reason()


def a_class(**verdicts: Reason | None) -> EquivalenceClass:
    made = EquivalenceClass(gpu_request_of(a_pod().asks(1).obj))
    for name, reason in verdicts.items():
        made.write(name, reason)
    return made


def read(answer: ClassAnswer) -> ExtenderFilterResult:
    return msgspec.json.decode(answer.text, type=ExtenderFilterResult)


# --- the answer about all nodes --------------------------------------------------------------------------


def test_the_answer_names_every_node_once_with_the_reason_of_each_rejection() -> None:
    answer = a_class(n0=None, n1=BUSY, n2=CORDONED, n3=BUSY).whole()
    assert read(answer) == ExtenderFilterResult(
        node_names=["n0"],
        failed_and_unresolvable_nodes={"n1": BUSY.with_code, "n2": CORDONED.with_code, "n3": BUSY.with_code},
    )
    assert (answer.fitting, answer.rejected) == (1, {"n1", "n2", "n3"})
    assert answer.reasons == {"in-use": 2, "cordoned": 1}


@pytest.mark.parametrize(
    ("verdicts", "only"),
    [
        ({"n0": None}, "n0"),
        ({"n0": None, "n1": BUSY}, "n0"),
        ({"n0": None, "n1": None}, ""),
        ({"n0": BUSY}, ""),
    ],
    ids=["alone", "the others are rejected", "two", "none"],
)
def test_the_only_node_that_fits_is_named_since_prioritize_is_not_asked_then(
    verdicts: Mapping[str, Reason | None], only: str
) -> None:
    made = a_class(**verdicts)
    assert made.whole().only == made.about(tuple(verdicts)).only == uncached_answer(verdicts).only == only


def test_the_text_is_kept_until_a_verdict_changes() -> None:
    made = a_class(n0=None, n1=BUSY)
    before = made.whole()
    made.write("n0", None)
    made.write("n1", IN_USE.reason())
    assert made.whole() is before, "the same verdicts again"
    made.write("n1", CORDONED)
    assert read(made.whole()).failed_and_unresolvable_nodes == {"n1": CORDONED.with_code}


# --- changes ---------------------------------------------------------------------------------------------


def test_a_reason_with_the_same_message_and_another_code_is_another_reason() -> None:
    made = a_class(n0=Reason("no", "first", "had none"))
    made.write("n0", Reason("no", "second", "had none"))
    assert made.whole().reasons == {"second": 1}


# --- the answer about some nodes -------------------------------------------------------------------------


def test_only_the_nodes_that_are_asked_about_are_answered_in_their_order() -> None:
    made = a_class(n0=None, n1=BUSY, n2=None, n3=CORDONED)
    assert read(made.about(("n2", "n3", "n0"))).node_names == ["n2", "n0"]
    assert read(made.about(("n2", "n3", "n0"))).failed_and_unresolvable_nodes == {"n3": CORDONED.with_code}
    assert made.about(("n2", "n3", "n0")).reasons == {"cordoned": 1}


@pytest.mark.parametrize(
    ("other", "fitting", "rejected"),
    [
        ({"n0": CORDONED}, [], {"n0", "n1"}),
        ({"n1": None}, ["n0", "n1"], set()),
        ({"new": None}, ["n0", "new"], {"n1"}),
        ({"new": NOT_PUBLISHED}, ["n0"], {"n1", "new"}),
        ({"n0": None, "n1": CORDONED}, ["n0"], {"n1"}),
    ],
)
def test_a_verdict_that_differs_this_time_counts_in_place_of_the_cached_one(
    other: dict[str, Reason | None], fitting: list[str], rejected: set[str]
) -> None:
    made = a_class(n0=None, n1=BUSY)
    answer = made.about(("n0", "n1", "new"), other)
    assert read(answer).node_names == fitting
    assert (answer.fitting, answer.rejected) == (len(fitting), rejected)
    assert read(answer).failed_and_unresolvable_nodes.keys() == rejected
    assert sum(answer.reasons.values()) == len(rejected)
    assert made.whole() == a_class(n0=None, n1=BUSY).whole(), "for this time only"


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "ä", "", "n" * 253])
def test_any_name_of_a_node_is_read_back_from_the_answer(name: str) -> None:
    made = a_class(**{name: None, "x": Reason("no", "odd", 'say "no"\n')})
    assert read(made.whole()).node_names == [name]
    assert read(made.whole()).failed_and_unresolvable_nodes == {"x": 'say "no"\n [odd]'}


NAMES = ("n0", "n1", "n2", "n3")
VERDICT = st.sampled_from([None, BUSY, CORDONED])


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.one_of(VERDICT, st.just("gone"))), max_size=12),
    st.lists(st.sampled_from(NAMES), unique=True),
)
def test_after_any_changes_the_answer_equals_the_present_verdicts(
    changes: list[tuple[str, Reason | str | None]], queried: list[str]
) -> None:
    made, expected = a_class(), dict[str, Reason | None]()
    for name, verdict in changes:
        if isinstance(verdict, str) and not isinstance(verdict, Reason):
            made.forget(name)
            expected.pop(name, None)
        else:
            made.write(name, verdict)
            expected[name] = verdict
        made.whole()
    about = {name: expected[name] for name in queried if name in expected}
    found, computed = made.about(tuple(queried)), uncached_answer(about)
    assert read(found) == read(computed)
    assert (found.fitting, found.rejected, found.reasons, found.only) == (
        computed.fitting,
        computed.rejected,
        computed.reasons,
        computed.only,
    )
