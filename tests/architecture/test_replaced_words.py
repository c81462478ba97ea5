"""Words that others have replaced (docs/vocabulary.md) are in no name of the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

import pytest

from tests.architecture.checkout import PACKAGES, name_of, python_of, tree_of

REPLACED: Final = {
    "anew": "rebuilt",
    "averse": "unresolvable",
    "deaf": "without events",
    "farewell": "what remains",
    "for_ever": "indefinitely",
    "goodbye": "release of a Lease",
    "graves": "tombstones",
    "handed_out": "advertised, or allocated",
    "haters": "anti-affinity",
    "heard": "known, or responsive",
    "keeper": "controller",
    "knob": "limit",
    "knobs": "limits",
    "milestone": "transition",
    "milestones": "transitions",
    "obstacle": "rejection, or reason",
    "promise": "guarantee, plan, assignment, or grant of MAIA",
    "promised": "guaranteed, planned, assigned, or granted by MAIA",
    "promises": "guarantees, plans, assignments, or grants of MAIA",
    "revive": "restart",
    "scene": "scenario",
    "sick": "unhealthy",
    "stamp": "cover annotation",
    "stamped": "annotated",
    "stamps": "cover annotations",
    "told": "reported, or distinguished",
    "turned_down": "rejected",
    "wish": "request",
}
"""A word, or some that follow each other, in small letters -> what is written instead."""

REPLACED_ALONE: Final = {
    "asked": "what was requested, queried, or called",
    "meant": "what is expected, or chosen",
    "noted": "what was recorded",
    "said": "the message, the output, or the values",
}
"""A word that is no name by itself -> what is written instead."""

THEIRS: Final = ("volume_claim", "volume_claims")
"""What Kubernetes calls so."""
ALLOWED: Final = {
    "booking/store/migrations/0002_promises.py": "promises",  # databases have stored its name
}
"""File -> words that its names may have."""


def names_in(file: str, tree: ast.Module) -> Iterator[str]:
    """Folders, module, classes, functions, parameters, variables and attributes that a file defines."""
    yield from PurePath(file).with_suffix("").parts
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def replaced_in(name: str) -> set[str]:
    """The replaced words of a name, whether it is written with capitals or with underscores."""
    words = f"_{re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', name).lower()}_"
    for theirs in THEIRS:
        words = words.replace(f"_{theirs}_", "_")
    alone = {word for word in REPLACED_ALONE if words.strip("_") == word}
    return alone | {word for word in REPLACED if f"_{word}_" in words}


def found() -> set[tuple[str, str, str]]:
    """(File, name, replaced word in it) of the whole checkout."""
    return {
        (name_of(path), name, word)
        for path in python_of(*PACKAGES, "docs", "tests")
        for name in names_in(name_of(path), tree_of(path))
        for word in replaced_in(name)
    }


def test_no_name_contains_a_replaced_word() -> None:
    assert [
        f"{file}: {name} has {word}: write {(REPLACED | REPLACED_ALONE)[word]}"
        for file, name, word in sorted(found())
        if word not in ALLOWED.get(file, "").split()
    ] == []


def test_every_exception_is_needed() -> None:
    needed = {(file, word) for file, _, word in found()}
    assert {(file, word) for file, words in ALLOWED.items() for word in words.split()} <= needed


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("test_a_pod_gets_what_was_promised", {"promised"}),
        ("_promise", {"promise"}),
        ("PromiseOfOneNode", {"promise"}),
        ("pods_are_turned_down_for_ever", {"turned_down", "for_ever"}),
        ("0002_promises", {"promises"}),
        ("timestamp", set()),
        ("for_everybody", set()),
        ("a_volume_claim", set()),
        ("VolumeClaim", set()),
        ("a_claim", set()),
        ("_said", {"said"}),
        ("test_nothing_is_said", set()),
    ],
)
def test_a_replaced_word_is_found_as_a_whole_word_and_not_in_a_term_of_kubernetes(
    name: str, words: set[str]
) -> None:
    assert replaced_in(name) == words


def test_every_name_that_a_file_defines_is_collected() -> None:
    tree = ast.parse(
        "class A:\n    async def b(self, e, *, f):\n        def c(): ...\n        self.d = g = h.i\n"
    )
    assert {*names_in("room/module.py", tree)} == {
        "room",
        "module",
        "A",
        "b",
        "c",
        "self",
        "e",
        "f",
        "d",
        "g",
    }
