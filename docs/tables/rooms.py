"""The diagram of rooms and arrows in ARCHITECTURE.md, generated from the import contracts."""

import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from docs.tables.markdown import ROOT

WIDE: Final = 44
"""Letters in one line of a box."""
DEVELOPERS: Final = "devcluster"
"""The package that nothing shipped may import; it may import everything itself."""
DEMO: Final = "demo"
"""The package that no part may import; it runs them all."""
PROGRAMS: Final = ("booking.server", "booking.controller")
"""Programs of one package, each with floors of its own."""
BESIDE: Final = " | "
"""The separator of neighbours on one floor, in a contract."""


def rooms_diagram() -> str:
    """Every package as a frame with its floors as boxes, in Mermaid; arrows lead to what may be imported."""
    contracts = tomllib.loads((ROOT / "contracts.toml").read_text())["tool"]["importlinter"]["contracts"]
    upper, lower = _parts(contracts)
    lines = [
        line
        for package in (DEVELOPERS, DEMO, *upper, *PROGRAMS, *lower)
        for line in _frame(package, contracts)
    ]
    lines.append(f"    {DEVELOPERS} --> {' & '.join((DEMO, *upper, *lower))}")
    lines.append(f"    {DEMO} --> {' & '.join((*upper, *lower))}")
    lines.append(f"    {' & '.join(upper)} --> {' & '.join(lower)}")
    return "\n".join(["```mermaid", "flowchart TB", *lines, "```", ""])


def _parts(contracts: Sequence[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """The parts, and the packages that all of them build on."""
    (found,) = (one for one in contracts if one["type"] == "layers" and not one.get("containers"))
    *_, upper, lower = found["layers"]
    return upper.split(BESIDE), lower.split(BESIDE)


def _frame(package: str, contracts: Sequence[dict[str, Any]]) -> Iterator[str]:
    (floors,) = (one["layers"] for one in contracts if one.get("containers") == [package])
    name = package.replace(".", "_")
    boxes = [f"{name}{number}" for number, _ in enumerate(floors, start=1)]
    yield f"    subgraph {name} [{package}]"
    yield "        direction TB"
    for box, floor in zip(boxes, floors, strict=True):
        yield f'        {box}["{_broken(floor.split(BESIDE))}"]'
    yield f"        {' --> '.join(boxes)}"
    yield "    end"


def _broken(rooms: Sequence[str]) -> str:
    """Names with dots between them, in lines of a limited length."""
    lines = [rooms[0]]
    for room in rooms[1:]:
        if len(lines[-1]) + len(room) > WIDE:
            lines.append(room)
        else:
            lines[-1] += f" · {room}"
    return "<br/>".join(lines)
