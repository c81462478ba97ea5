"""Names of modules and folders say what is in them."""

import pytest

from tests.architecture.checkout import PACKAGES, ROOT, SHIPPED, name_of, tracked


def test_no_test_folder_is_a_package_that_would_shadow_the_product() -> None:
    assert not [name_of(p) for p in tracked("__init__.py") if p.relative_to(ROOT).parts[0] == "tests"]


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
