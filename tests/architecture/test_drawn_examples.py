"""Hypothesis: no example has a deadline, and every run that judges a landing draws the same ones.

The profiles are those of tests/conftest.py; a module says how many examples it wants, and no more.
"""

import ast
from typing import Final

import pytest
from hypothesis import settings

from tests.architecture.checkout import ROOT, name_of, python_of, tree_of

PROFILES: Final = ("any machine", "landing", "soak")
OF_THE_PROFILE: Final = frozenset({"deadline", "derandomize", "database"})
"""What no module decides for itself."""


@pytest.mark.parametrize("profile", PROFILES)
def test_no_example_has_a_deadline(profile: str) -> None:
    assert settings.get_profile(profile).deadline is None


def test_the_usual_profile_is_in_use_unless_another_is_asked_for(request: pytest.FixtureRequest) -> None:
    profile = request.config.getoption("--hypothesis-profile") or "any machine"
    assert settings().derandomize == settings.get_profile(profile).derandomize
    assert settings().deadline is None


def test_the_landing_profile_draws_the_same_examples_every_time() -> None:
    assert settings.get_profile("landing").derandomize
    assert "--hypothesis-profile=landing" in (ROOT / ".ci/run").read_text()


def decided(tree: ast.Module) -> list[str]:
    """What a module gives to Hypothesis' settings that is the profile's."""
    return [
        f"line {node.lineno}: {keyword.arg}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "settings"
        for keyword in node.keywords
        if keyword.arg in OF_THE_PROFILE
    ]


def test_no_module_sets_its_own_deadline_or_randomness() -> None:
    modules = [path for path in python_of("tests") if "hypothesis" in path.read_text()]
    assert len(modules) > 1
    assert not {name_of(path): found for path in modules if (found := decided(tree_of(path)))}


def test_a_module_that_sets_its_own_options_is_found() -> None:
    module = """
@settings(max_examples=3, deadline=200)
@hypothesis.settings(derandomize=False)
def test(): ...
"""
    assert decided(ast.parse(module)) == ["line 2: deadline", "line 3: derandomize"]
