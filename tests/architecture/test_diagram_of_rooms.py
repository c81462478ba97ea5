"""The diagram of ARCHITECTURE.md, read as a reader reads it, has the boxes and arrows of contracts.toml."""

import re
import tomllib
from itertools import pairwise
from typing import Any

import pytest

from tests.architecture.checkout import PACKAGES, PARTS, ROOT, SHIPPED

TEXT = (ROOT / "ARCHITECTURE.md").read_text()
CONTRACTS: list[dict[str, Any]] = tomllib.loads((ROOT / "contracts.toml").read_text())["tool"][
    "importlinter"
]["contracts"]
(DIAGRAM,) = re.findall(r"^```mermaid\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
FRAMES: dict[str, str] = dict(
    re.findall(r"^    subgraph (\w+)\n(.*?)^    end$", DIAGRAM, re.DOTALL | re.MULTILINE)
)
BETWEEN = re.sub(r"^    subgraph .*?^    end$", "", DIAGRAM, flags=re.DOTALL | re.MULTILINE)
"""What is outside of all frames."""


def arrows_in(text: str) -> set[tuple[str, str]]:
    """From, to; ``a & b --> c --> d`` are three."""
    rows = [[side.split(" & ") for side in line.strip().split(" --> ")] for line in text.splitlines()]
    return {
        (one, other) for row in rows for before, after in pairwise(row) for one in before for other in after
    }


def boxes_in(frame: str) -> dict[str, tuple[str, ...]]:
    """Box -> the rooms and modules that are named in it."""
    found = re.findall(r'^ +(\w+)\["(.*)"\]$', frame, re.MULTILINE)
    return {box: tuple(re.split(r" · |<br/>", label)) for box, label in found}


def floors_of(package: str) -> list[tuple[str, ...]]:
    """The layers of a package's own contract, the highest first."""
    (layers,) = (one["layers"] for one in CONTRACTS if one.get("containers") == [package])
    return [tuple(layer.split(" | ")) for layer in layers]


def test_every_package_is_a_frame() -> None:
    assert set(FRAMES) == set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_arrows_within_a_frame_lead_from_each_layer_to_the_next(package: str) -> None:
    boxes, floors = boxes_in(FRAMES[package]), floors_of(package)
    arrows = {(boxes[one], boxes[other]) for one, other in arrows_in(FRAMES[package])}
    assert sorted(boxes.values()) == sorted(floors)
    assert arrows == set(pairwise(floors))


def test_arrows_between_frames_are_imports_that_no_contract_forbids() -> None:
    (parts,) = (one for one in CONTRACTS if one["type"] == "layers" and not one.get("containers"))
    _, upper, lower = (layer.split(" | ") for layer in parts["layers"])
    (apart,) = (one for one in CONTRACTS if one.get("forbidden_modules") == ["devcluster"])
    assert set(apart["source_modules"]) == set(SHIPPED)
    assert arrows_in(BETWEEN) == {
        *((one, other) for one in upper for other in lower),
        *(("devcluster", one) for one in SHIPPED),
        *(("demo", one) for one in PARTS),
    }


def test_a_chain_of_arrows_is_read_as_single_arrows() -> None:
    assert arrows_in("    a & b --> c --> d\n    e\n") == {("a", "c"), ("b", "c"), ("c", "d")}
