"""The JSON of scheduler extenders: Go's names, and null wherever Go may write it."""

from typing import Any

import msgspec
import pytest

from extender.wire import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    MetaPod,
    MetaVictims,
)
from tests.fakes.objects import a_pod

POD = a_pod().asks(1).raw


def arguments(**more: Any) -> ExtenderArgs:
    return msgspec.json.decode(msgspec.json.encode({"Pod": POD, **more}), type=ExtenderArgs)


@pytest.mark.parametrize(
    ("sent", "names", "whole"),
    [
        ({"NodeNames": ["n0", "n1"]}, ("n0", "n1"), False),
        ({"NodeNames": ["n0"], "Nodes": None}, ("n0",), False),
        ({"NodeNames": ["n0"], "Nodes": {"items": []}}, ("n0",), False),
        ({"NodeNames": [], "Nodes": None}, (), False),
        ({"NodeNames": None, "Nodes": None}, None, False),
        ({}, None, False),
        ({"NodeNames": None, "Nodes": {"items": []}}, None, True),
        ({"Nodes": {"metadata": {}, "items": [{"metadata": {"name": "n0"}}]}}, None, True),
    ],
)
def test_node_names_are_read_and_whole_nodes_are_noticed(
    sent: dict[str, Any], names: tuple[str, ...] | None, *, whole: bool
) -> None:
    found = arguments(**sent)
    assert (found.node_names, found.has_whole_nodes) == (names, whole)


def test_the_pod_inside_is_a_normal_object() -> None:
    assert arguments(NodeNames=[]).pod == a_pod().asks(1).obj


def test_fields_of_a_later_scheduler_are_ignored() -> None:
    assert arguments(NodeNames=["n0"], Deadline={"Seconds": 5}).node_names == ("n0",)


@pytest.mark.parametrize(
    "body",
    [
        {"pod": POD, "nodeNames": ["n0"]},
        {"Pod": POD, "NodeNames": "n0"},
        {"Pod": POD, "NodeNames": [None]},
        {"Pod": POD, "NodeNames": [1]},
        {"Pod": [POD]},
        {"NodeNames": ["n0"]},
    ],
    ids=["other names", "one name", "a null", "a number", "a list of pods", "no pod"],
)
def test_a_malformed_request_is_an_error_and_not_guessed(body: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(body), type=ExtenderArgs)


BIND = {"PodName": "p", "PodNamespace": "lab", "PodUID": "u-1", "Node": "n0"}


def test_a_bind_names_the_pod_its_uid_and_the_node() -> None:
    found = msgspec.json.decode(msgspec.json.encode(BIND), type=ExtenderBindingArgs)
    assert (found.pod_name, found.pod_namespace, found.pod_uid, found.node) == ("p", "lab", "u-1", "n0")


@pytest.mark.parametrize("field", BIND)
@pytest.mark.parametrize("wrong", [None, 1, "missing"])
def test_a_bind_without_one_of_them_is_refused(field: str, wrong: object) -> None:
    body = {**BIND, field: wrong}
    if wrong == "missing":
        del body[field]
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(body), type=ExtenderBindingArgs)


@pytest.mark.parametrize(
    ("sent", "uids", "violations"),
    [
        ({"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 2}, ("a", "b"), 2),
        ({"Pods": None, "NumPDBViolations": 1}, (), 1),
        ({"Pods": []}, (), 0),
        ({}, (), 0),
    ],
)
def test_victims_are_named_by_uid_and_may_be_null(
    sent: dict[str, Any], uids: tuple[str, ...], violations: int
) -> None:
    body = {"Pod": POD, "NodeNameToMetaVictims": {"n0": sent}}
    found = msgspec.json.decode(msgspec.json.encode(body), type=ExtenderPreemptionArgs)
    victims = (found.node_name_to_meta_victims or {})["n0"]
    assert (victims.uids, victims.num_pdb_violations) == (uids, violations)


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        (
            ExtenderFilterResult(node_names=["n0"], failed_and_unresolvable_nodes={"n1": "no"}),
            {
                "NodeNames": ["n0"],
                "FailedNodes": {},
                "FailedAndUnresolvableNodes": {"n1": "no"},
                "Error": "",
            },
        ),
        (HostPriority(host="n0", score=7), {"Host": "n0", "Score": 7}),
        (ExtenderBindingResult(error="no"), {"Error": "no"}),
        (ExtenderBindingResult(), {"Error": ""}),
        (
            ExtenderPreemptionResult(
                node_name_to_meta_victims={"n0": MetaVictims(pods=(MetaPod(uid="a"),), num_pdb_violations=1)}
            ),
            {"NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": "a"}], "NumPDBViolations": 1}}},
        ),
        (ExtenderPreemptionResult(), {"NodeNameToMetaVictims": {}}),
    ],
    ids=lambda case: type(case).__name__,
)
def test_fields_of_answers_have_go_s_names(answer: msgspec.Struct, written: dict[str, Any]) -> None:
    assert msgspec.json.decode(msgspec.json.encode(answer)) == written
