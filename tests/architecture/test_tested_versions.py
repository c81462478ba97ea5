"""docs/tested-with.md and the first steps name the versions with which the tests run."""

import pytest

from devcluster.binaries.pins import TOOLS, Tool, version
from tests.architecture.checkout import ROOT

TESTED = [tool for tool in TOOLS if tool.name in {"kubernetes", "etcd", "containerd", "runc", "helm"}]


@pytest.mark.parametrize("tool", TESTED, ids=[tool.name for tool in TESTED])
def test_the_pinned_version_is_the_one_named_in_the_table(tool: Tool) -> None:
    rows = [
        line for line in (ROOT / "docs" / "tested-with.md").read_text().splitlines() if line.startswith("| ")
    ]
    pinned = version(tool).removeprefix("v")
    assert [row for row in rows if f" {pinned}" in row.split("|")[-2]], f"{tool.name} {pinned}"
