"""Pictures of where pods land by each placement policy: ``docs.tables.landing`` as SVG."""

from typing import Final

from cluster import names
from docs.tables.landing import GPUS, NODES, PLANNED, SITS, Landing, landings

_CELL: Final = 44
_GAP: Final = 6
_PAIR: Final = 10
"""Additional space between two pairs: their GPUs are not joined by NVLink."""
_LEFT: Final = 16
_TOP: Final = 54
_COLUMN: Final = 2 * _CELL + _GAP + 34
_WIDTH: Final = 2 * _LEFT + len(NODES) * _COLUMN - 34
_HEIGHT: Final = _TOP + 2 * _CELL + _PAIR + 66
_STYLE: Final = """
text { font: 14px system-ui, sans-serif; fill: #1f2328; }
.small { font-size: 12px; fill: #59636e; }
.free { fill: none; stroke: #8c959f; }
.there { fill: #d1d9e0; stroke: #8c959f; }
.planned { fill: none; stroke: #9a6700; stroke-width: 2; stroke-dasharray: 5 3; }
.pod { fill: #0969da; stroke: #0550ae; }
.number { fill: #ffffff; font-weight: 600; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .small { fill: #9198a1; } .there { fill: #3d444d; } .planned { stroke: #d29922; }
  .pod { fill: #1f6feb; stroke: #4493f8; }
}
"""
MEANS: Final[dict[str, str]] = {
    "binpack": "nodes in use are filled first, so that whole nodes stay free for large pods",
    "spread": "the emptiest node first, so that pods disturb each other least",
    "topology": "GPUs joined by NVLink stay together: a pair is broken up last",
    "booked-reserve": "nodes on which a running booking has GPUs planned are used last",
}


def diagrams() -> dict[str, str]:
    """File name -> SVG, one per policy."""
    return {f"placement-{placement}.svg": diagram(placement) for placement in names.PLACEMENTS}


def placements() -> str:
    """Each policy with its meaning, its diagram, and the diagram's content in words."""
    return "\n".join(
        f"**{placement}**: {MEANS[placement]}.\n\n"
        f"![Where five pods land by {placement}](images/placement-{placement}.svg)\n\n{_words(placement)}\n"
        for placement in names.PLACEMENTS
    )


def _words(placement: str) -> str:
    steps = "; ".join(_in_words(one) for one in landings(placement))
    return f"In words: {steps}."


def _in_words(one: Landing) -> str:
    amount = f"{one.gpus} GPU" if one.gpus == 1 else f"{one.gpus} GPUs"
    where = f"on {one.node} ({', '.join(map(str, one.devices))})" if one.node else "waits"
    return f"{one.pod} of {amount} {where}"


def diagram(placement: str) -> str:
    """The cluster after all pods have arrived, as SVG."""
    found = landings(placement)
    holders = {(node, index): "" for _, node, devices in SITS for index in devices}
    for number, one in enumerate(found, start=1):
        holders |= {(one.node or "", index): str(number) for index in one.devices}
    cells = [
        _cell(column, index, holders.get((node, index)), planned=_is_planned(node, index, holders))
        for column, node in enumerate(NODES)
        for index in range(GPUS)
    ]
    titles = [
        f'<text x="{_LEFT + column * _COLUMN}" y="{_TOP - 10}">{node}</text>'
        for column, node in enumerate(NODES)
    ]
    waiting = ", ".join(f"pod-{n}" for n, one in enumerate(found, start=1) if one.node is None)
    end = f"waits: {waiting}" if waiting else "all five have found a place"
    lines = [
        "blue: pods, in the order of their numbers; grey: there before",
        f"dashed: planned for a booking; {end}",
    ]
    words = [
        f'<text class="small" x="{_LEFT}" y="{_HEIGHT - 34 + 18 * row}">{line}</text>'
        for row, line in enumerate(lines)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
            f"<title>{placement}: {_words(placement)}</title>",
            f"<style>{_STYLE}</style>",
            f'<text x="{_LEFT}" y="20">{placement}</text>',
            *titles,
            *cells,
            *words,
            "</svg>\n",
        ]
    )


def _is_planned(node: str, index: int, holders: dict[tuple[str, int], str]) -> bool:
    """Whether a GPU is drawn as planned: the plan names a number, for which a node's last free GPUs stand."""
    name, count = PLANNED
    free = [other for other in range(GPUS) if (name, other) not in holders]
    return node == name and index in free[-count:]


def _cell(column: int, index: int, holder: str | None, *, planned: bool) -> str:
    x = _LEFT + column * _COLUMN + (index % 2) * (_CELL + _GAP)
    y = _TOP + (index // 2) * (_CELL + _PAIR)
    kind = "planned" if planned else "free" if holder is None else "pod" if holder else "there"
    box = f'<rect class="{kind}" x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" rx="4"/>'
    if not holder:
        return box
    return f'{box}<text class="number" x="{x + 17}" y="{y + 28}">{holder}</text>'
