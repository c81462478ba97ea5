"""Names of modules and folders say what is in them."""

from pathlib import Path

import pytest

from tests.architecture.checkout import PACKAGES, ROOT, SHIPPED, name_of, tracked

GRAB_BAGS = {
    *(
        "base",
        "etc",
        "extra",
        "function",
        "general",
        "generic",
        "helper",
        "helpers",
        "manager",
        "misc",
        "mixin",
    ),
    *("other", "shared", "stuff", "support", "things", "tool", "tools", "util", "utility", "utils", "common"),
}
OF_OTHERS = (
    "devcluster/components/controller_manager.py",
    "docs/recipes/cert-manager.md",
    "tests/charts/cert-manager/",
)
"""Named after what they start or install."""


def grab_bags_in(name: str) -> set[str]:
    """Words of a path that say nothing: whole names and parts of names (``kube_utils``, ``test_common``)."""
    path = Path(name)
    rooms = [*path.parts[:-1], path.stem]
    return {word for room in rooms for word in room.lower().replace("-", "_").split("_")} & GRAB_BAGS


def named_by_us() -> list[str]:
    """Files in every language."""
    return [name for path in tracked() if not (name := name_of(path)).startswith(OF_OTHERS)]


def test_no_module_and_no_folder_is_a_grab_bag() -> None:
    assert {name: words for name in named_by_us() if (words := grab_bags_in(name))} == {}


def test_no_test_folder_is_a_package_that_would_shadow_the_product() -> None:
    assert not [name_of(p) for p in tracked("__init__.py") if p.relative_to(ROOT).parts[0] == "tests"]


def test_every_room_of_a_package_has_a_sentence_about_its_content() -> None:
    silent = [
        name_of(path)
        for path in tracked("__init__.py")
        if path.relative_to(ROOT).parts[0] in PACKAGES and not path.read_text().startswith('"""')
    ]
    assert not silent


def test_every_folder_with_code_of_a_package_is_a_room_with_a_sentence() -> None:
    folders = {p.parent for p in tracked(".py") if p.relative_to(ROOT).parts[0] in PACKAGES}
    assert not [name_of(folder) for folder in folders if not (folder / "__init__.py").exists()]


@pytest.mark.parametrize("package", SHIPPED)
def test_every_shipped_package_shows_its_types(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()


def test_the_code_map_names_only_existing_files() -> None:
    """The code map of ARCHITECTURE.md."""
    text = (ROOT / "ARCHITECTURE.md").read_text().split("## Code map")[1].split("##")[0]
    rooms = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
    assert rooms
    assert [room for room in rooms if not (ROOT / room).exists()] == []
