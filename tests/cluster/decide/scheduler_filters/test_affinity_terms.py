"""Which pods a label selector and a term of pod affinity match."""

from typing import Any

import msgspec
import pytest

from cluster.decide.scheduler_filters.affinity_terms import is_empty, reach_of, selects, terms_of
from cluster.objects.namespaces import Namespace
from cluster.objects.selectors import LabelSelector, PodAffinity
from tests.cluster.decide.scheduler_filters import cases

NAMESPACES = {
    name: msgspec.convert({"metadata": {"name": name, "labels": labels}}, Namespace)
    for name, labels in cases.NAMESPACES.items()
} | {"bare": msgspec.convert({"metadata": {"name": "bare"}}, Namespace)}
GOLD, EMPTY = cases.selector(tier="gold"), cases.Json()
WEB = cases.selector(app="web")


def selector(**written: Any) -> LabelSelector:
    return msgspec.convert(written, LabelSelector)


def wanted(operator: str, *values: str) -> dict[str, Any]:
    return {"key": "app", "operator": operator, "values": values}


@pytest.mark.parametrize(
    ("chosen", "web", "bare"),
    [
        (None, False, False),
        (selector(), True, True),
        (selector(matchLabels={"app": "web"}), True, False),
        (selector(matchLabels={"app": "db"}), False, False),
        (selector(matchLabels={"app": "web", "v": "1"}), False, False),
        (selector(matchExpressions=[wanted("In", "web", "db")]), True, False),
        (selector(matchExpressions=[wanted("NotIn", "web")]), False, True),
        (selector(matchExpressions=[wanted("Exists")]), True, False),
        (selector(matchExpressions=[wanted("DoesNotExist")]), False, True),
        (selector(matchExpressions=[wanted("Exists"), wanted("NotIn", "web")]), False, False),
        (selector(matchLabels={"app": "web"}, matchExpressions=[wanted("NotIn", "web")]), False, False),
        (selector(matchLabels={"app": "db"}, matchExpressions=[wanted("Exists")]), False, False),
    ],
)
def test_all_parts_of_a_selector_must_match(*, chosen: LabelSelector | None, web: bool, bare: bool) -> None:
    assert selects(chosen, {"app": "web"}) is web
    assert selects(chosen, {}) is bare


@pytest.mark.parametrize(
    ("chosen", "empty"),
    [
        (selector(), True),
        (selector(matchLabels={}, matchExpressions=[]), True),
        (selector(matchLabels={"app": "web"}), False),
        (selector(matchExpressions=[wanted("Exists")]), False),
    ],
)
def test_a_selector_without_labels_and_expressions_is_empty(*, chosen: LabelSelector, empty: bool) -> None:
    assert is_empty(chosen) is empty


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({}, {"team"}),
        ({"namespaces": ["other"]}, {"other"}),
        ({"namespaces": ["team", "other"]}, {"team", "other"}),
        ({"namespaceSelector": EMPTY}, {"team", "other", "bare"}),
        ({"namespaceSelector": GOLD}, {"team"}),
        ({"namespaceSelector": cases.selector(tier="none")}, set()),
        ({"namespaces": ["other"], "namespaceSelector": GOLD}, {"team", "other"}),
        ({"namespaces": [], "namespaceSelector": GOLD}, {"team"}),
    ],
    ids=[
        "the pod's own",
        "a named one",
        "named ones",
        "an empty selector: all",
        "a selected one",
        "none",
        "named and selected",
        "an empty list of names counts as none",
    ],
)
def test_a_term_applies_to_the_namespaces_that_it_names_or_selects(
    about: cases.Json, expected: set[str]
) -> None:
    written = cases.required("podAffinity", cases.term("zone", WEB, **about))["podAffinity"]
    (term,) = terms_of(msgspec.convert(written, PodAffinity), "team")
    reach = reach_of(term, NAMESPACES)

    for name, namespace in NAMESPACES.items():
        about_it = namespace.metadata.labels or {}
        assert term.speaks_of(name, about_it, {"app": "web"}) is (name in expected)
        assert reach.includes(name, {"app": "web"}) is (name in expected)
        assert not term.speaks_of(name, about_it, {"app": "db"})
        assert not reach.includes(name, {"app": "db"})
    assert term.topology_key == reach.topology_key == "zone"


def test_an_affinity_without_required_terms_has_no_terms() -> None:
    assert terms_of(None, "team") == ()
    assert terms_of(PodAffinity(), "team") == ()
