"""docs/versions.md claims what the chart takes, and what tests play."""

from pathlib import Path

import yaml

from devcluster.product import chart
from docs.tables.markdown import ROOT
from docs.tables.versions import PRESETS, VERSIONS, distributions_table


def test_the_lowest_version_of_the_table_is_the_lowest_that_the_chart_takes_and_it_has_run() -> None:
    lowest = VERSIONS[-1]
    assert (
        yaml.safe_load(Path(chart.CHART, "Chart.yaml").read_text())["kubeVersion"] == f">={lowest.minor}.0-0"
    )
    assert lowest.played


def test_every_test_that_is_named_exists_and_what_none_has_played_is_not_said_to_work() -> None:
    assert all((ROOT / test).is_file() for version in VERSIONS for test in version.played)
    assert {version.works for version in VERSIONS if not version.played} <= {
        "not known; the chart does not refuse it"
    }


def test_every_preset_has_its_line() -> None:
    lines = distributions_table().splitlines()[2:]
    assert [line.split("`")[1] for line in lines] == list(yaml.safe_load(PRESETS.read_text()))
