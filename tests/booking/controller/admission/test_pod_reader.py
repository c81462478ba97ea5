"""What a new pod requests, and which of its keys only we may write."""

import copy
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.controller.admission import pod_reader
from booking.controller.admission.pod_reader import BadPodError, our_keys, without_ours
from cluster import names

OURS: Final = (names.BOOKING, names.COMEBACK, names.QUEUE, names.HOLD)
THEIRS: Final = ("app", "example.com/x", f"{names.DOMAIN}.example.com/x")


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"containers": list(containers), "initContainers": list(init)}}


def asking(amount: Any, *, resource: str = names.GPU_RESOURCE, part: str = "limits") -> dict[str, Any]:
    return {"name": "main", "resources": {part: {resource: amount}}}


@pytest.mark.parametrize(
    "raw",
    [
        {"metadata": {}},
        {"spec": {}},
        {"metadata": None, "spec": {}},
        {"metadata": {}, "spec": None},
        {"metadata": {}, "spec": []},
        {"metadata": {"name": 7}, "spec": {}},
        {"metadata": {}, "spec": {"containers": "none"}},
        {},
    ],
    ids=[
        "no spec",
        "no metadata",
        "metadata of null",
        "a spec of null",
        "a list as spec",
        "a number as name",
        "a text as containers",
        "nothing",
    ],
)
def test_an_object_that_is_not_a_pod_is_refused_with_a_message(raw: dict[str, Any]) -> None:
    with pytest.raises(BadPodError, match=r"^The object is not a pod: .*\.$"):
        pod_reader.read(raw)


@pytest.mark.parametrize("group", ["initContainers", "containers"])
@pytest.mark.parametrize("part", ["limits", "requests"])
@pytest.mark.parametrize(
    ("amount", "asks"),
    [
        (1, True),
        ("1", True),
        ("8", True),
        ("1k", True),
        ("1000m", True),
        ("many", True),
        ("-1", True),
        ("", True),
        ("0", False),
        (0, False),
        ("0k", False),
    ],
)
def test_every_amount_but_zero_counts_as_a_request_even_an_unreadable_one(
    group: str, part: str, amount: Any, *, asks: bool
) -> None:
    raw = {"metadata": {}, "spec": {group: [{"name": "other"}, asking(amount, part=part)]}}
    assert pod_reader.asks_for_gpus(pod_reader.read(raw)) is asks


@pytest.mark.parametrize(
    ("resource", "asks"),
    [
        (names.GPU_RESOURCE, True),
        ("nvidia.com/mig-1g.10gb", True),
        ("cpu", False),
        ("amd.com/gpu", False),
        (names.SHARED_RESOURCE, True),
        ("nvidia.com/gpumemory", False),
    ],
)
def test_only_gpus_mig_devices_and_slots_of_shares_count(resource: str, *, asks: bool) -> None:
    assert pod_reader.asks_for_gpus(pod_reader.read(pod(asking("1", resource=resource)))) is asks


@pytest.mark.parametrize(
    "container",
    [{"name": "c"}, {"name": "c", "resources": None}, {"name": "c", "resources": {"limits": None}}],
    ids=["no resources", "resources of null", "limits of null"],
)
def test_a_container_without_resources_requests_nothing(container: dict[str, Any]) -> None:
    assert not pod_reader.asks_for_gpus(pod_reader.read(pod(container)))


def marked(*keys: str) -> dict[str, Any]:
    """A pod with these keys in each place where a key of ours may be."""
    return {
        "metadata": {
            "annotations": dict.fromkeys(keys, "x"),
            "labels": dict.fromkeys(keys, "x"),
            "finalizers": list(keys),
        },
        "spec": {"schedulingGates": [{"name": key} for key in keys]},
    }


PLACES: Final = {
    "annotation": lambda key: {"metadata": {"annotations": {key: "x"}}, "spec": {}},
    "label": lambda key: {"metadata": {"labels": {key: "x"}}, "spec": {}},
    "finalizer": lambda key: {"metadata": {"finalizers": [key]}, "spec": {}},
    "gate": lambda key: {"metadata": {}, "spec": {"schedulingGates": [{"name": key}]}},
}


@pytest.mark.parametrize("place", PLACES)
def test_law_l7_our_keys_are_found_and_removed_everywhere_and_others_stay(place: str) -> None:
    ours, theirs = PLACES[place](names.QUEUE), PLACES[place]("example.com/x")
    assert our_keys(ours) == [names.QUEUE]
    assert our_keys(without_ours(ours)) == []
    assert our_keys(theirs) == []
    assert without_ours(theirs) == theirs


@given(keys=st.lists(st.sampled_from([*OURS, *THEIRS]), unique=True))
def test_law_l7_none_of_our_keys_is_left_and_none_of_the_users_is_lost(keys: list[str]) -> None:
    raw = marked(*keys)
    before = copy.deepcopy(raw)
    after = without_ours(raw)
    assert raw == before, "the object that came is not changed"
    theirs = [key for key in keys if key in THEIRS]
    assert after["metadata"] == marked(*theirs)["metadata"]
    assert after["spec"].get("schedulingGates", []) == [{"name": key} for key in theirs]


@pytest.mark.parametrize(
    ("gates", "set_it", "after"),
    [
        (None, True, [names.QUEUE]),
        ([], True, [names.QUEUE]),
        (["theirs"], True, ["theirs", names.QUEUE]),
        ([names.QUEUE], True, [names.QUEUE]),
        ([names.QUEUE, "theirs"], True, ["theirs", names.QUEUE]),
        ([names.QUEUE, "theirs"], False, ["theirs"]),
        ([names.QUEUE], False, None),
        (["theirs"], False, ["theirs"]),
        (None, False, None),
    ],
    ids=[
        "the first",
        "the first of an empty list",
        "after another's",
        "there already",
        "behind another's",
        "off, another's stays",
        "off, the last",
        "none of ours",
        "none at all",
    ],
)
def test_our_gate_is_set_once_or_removed_and_others_stay(
    gates: list[str] | None, after: list[str] | None, *, set_it: bool
) -> None:
    spec: dict[str, Any] = {"nodeName": "n"}
    if gates is not None:
        spec["schedulingGates"] = [{"name": name} for name in gates]
    found = pod_reader.with_gate(spec, set_it=set_it)
    assert found["nodeName"] == "n"
    assert found.get("schedulingGates") == (None if after is None else [{"name": name} for name in after])


@pytest.mark.parametrize(
    ("annotations", "value", "after"),
    [
        (None, "1", {"k": "1"}),
        ({"k": "0", "other": "x"}, "1", {"k": "1", "other": "x"}),
        ({"k": "0", "other": "x"}, None, {"other": "x"}),
        (None, None, {}),
        ({}, "", {"k": ""}),
    ],
    ids=["the first", "another value", "taken off", "not there", "an empty value"],
)
def test_an_annotation_is_written_or_removed_and_others_stay(
    annotations: dict[str, str] | None, value: str | None, after: dict[str, str]
) -> None:
    raw = {"metadata": {"name": "p", "annotations": annotations}, "spec": {}}
    found = pod_reader.with_annotation(raw, "k", value)
    assert found == {"metadata": {"name": "p", "annotations": after}, "spec": {}}
    assert raw["metadata"] == {"name": "p", "annotations": annotations}
