"""The JSON patch between two objects."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from booking.controller.admission.patch import Operation, patch
from demo.simulation.json_patch import applied

KEYS = st.sampled_from(["a", "b", "c/d", "e~f", "~1", ""])
LEAVES: st.SearchStrategy[Any] = st.sampled_from([None, True, 1, 2, "", "x", [1], [2, {"a": 1}], {}])
INNER = st.dictionaries(KEYS, LEAVES, max_size=3)
OBJECTS = st.dictionaries(KEYS, LEAVES | INNER | st.dictionaries(KEYS, INNER, max_size=2), max_size=4)


@given(OBJECTS, OBJECTS)
def test_the_patch_turns_one_object_into_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert applied(before, patch(before, after)) == after


def test_names_are_escaped_as_in_json_pointers() -> None:
    assert patch({}, {"a/b~c": 1}) == (Operation("add", "/a~1b~0c", 1),)


def test_only_differences_are_patched_in_the_order_of_the_paths() -> None:
    before = {"b": {"x": 1, "y": 2}, "a": 1, "same": [1]}
    steps = patch(before, {"b": {"x": 1, "y": 3, "z": 4}, "same": [1]})
    assert steps == (
        Operation("remove", "/a"),
        Operation("replace", "/b/y", 3),
        Operation("add", "/b/z", 4),
    )


def test_a_removal_carries_no_value_on_the_wire() -> None:
    assert msgspec.json.encode(patch({"a": 1}, {})) == b'[{"op":"remove","path":"/a"}]'
