"""What docs/sizing.md says is what was measured, and what the chart gives is enough for it."""

import json
import re

import pytest
import yaml

from devcluster.product import chart
from docs.tables.markdown import ROOT

TEXT = (ROOT / "docs" / "sizing.md").read_text()
MEASURED = {row["name"]: row["value"] for row in json.loads((ROOT / "bench" / "results.json").read_text())}
ROW = re.compile(r"`((?:memory|extender|plan|pod|schedule|book|page|eviction|filter|recovery)[a-z0-9-]*)`")
FIGURE = re.compile(r"about ([\d.]+) (?:MiB|s|ms|bytes|a second)")
ROUNDED = 1.15
"""How far what is said may be from what was measured: it is said in round figures."""
BIGGEST = {"nodeAgent": "memory-agent", "extender": "extender-memory", "controller": "plan-memory"}
"""Part, as the chart's values name it -> its memory on the largest cluster that was tried."""


def pairs() -> list[tuple[float, str]]:
    """Every figure with its row: those of one line, in their order."""
    lines = ((FIGURE.findall(line), ROW.findall(line)) for line in TEXT.splitlines())
    return [
        (float(n), row)
        for figures, rows in lines
        if len(figures) == len(rows)
        for n, row in zip(figures, rows, strict=True)
    ]


def test_every_named_row_was_measured() -> None:
    assert set(ROW.findall(TEXT)) <= MEASURED.keys()


@pytest.mark.parametrize(("figure", "row"), sorted(set(pairs())))
def test_a_figure_is_near_what_was_measured(figure: float, row: str) -> None:
    assert figure / ROUNDED <= MEASURED[row] <= figure * ROUNDED


@pytest.mark.parametrize(("part", "row"), BIGGEST.items())
def test_the_chart_gives_three_times_the_memory_that_the_largest_cluster_took(part: str, row: str) -> None:
    values = yaml.safe_load((chart.CHART / "values.yaml").read_text())
    limit = values[part]["resources"]["limits"]["memory"]
    number, unit = limit[:-2], limit[-2:]
    assert float(number) * {"Mi": 1, "Gi": 1024}[unit] >= 3 * MEASURED[row]
