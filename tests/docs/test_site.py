"""The site has every document at a place of its own, and its links lead there."""

import re
import tomllib
from pathlib import Path

import pytest

from docs import site
from docs.tables.markdown import ROOT
from tests.architecture.checkout import MANUAL
from tests.fakes.headings import anchors

KNOWN = site.pages() | {f"docs/{name}": name for name in site.COPIED}
CONFIGURATION = (ROOT / site.CONFIGURATION).read_text()
MOST_WORDS = 1500
"""On a page of the manual: a reader's few minutes."""
MOST_CHANGES = 40
"""Lines about what a version contains, before what is thin in it."""
LINK = re.compile(r"\]\(([^)\s#]*)#([^)\s]+)\)")


@pytest.mark.parametrize(
    ("document", "text", "expected"),
    [
        ("README.md", "[a tour](docs/tour.md)", "[a tour](tour.md)"),
        ("README.md", "![x](docs/images/tour.png)", "![x](images/tour.png)"),
        ("README.md", "[decisions](docs/adr/)", "[decisions](adr/index.md)"),
        ("docs/cli.md", "[README](../README.md#see-it)", "[README](index.md#see-it)"),
        ("docs/recipes/backup.md", "[m](../operations/backup.md#x)", "[m](../operations/backup.md#x)"),
        ("docs/recipes/backup.md", "[r](../examples/restore.yaml)", "[r](../examples/restore.yaml)"),
        ("docs/adr/0001-direct-packages.md", "[map](../../ARCHITECTURE.md)", "[map](../architecture.md)"),
        ("docs/operations/installing.md", "[values](../../charts/gpu-booking/values.yaml)", "values"),
        ("docs/cli.md", "[manual](operations/README.md)", "[manual](operations/index.md)"),
        ("docs/cli.md", "[kind](https://kind.sigs.k8s.io), [here](#x)", None),
        ("docs/cli.md", "`[no](link.md)`", None),
    ],
)
def test_a_link_leads_to_the_page_of_its_document_or_is_text(
    document: str, text: str, expected: str | None
) -> None:
    assert site.rendered(text, document, KNOWN) == (text if expected is None else expected)


def test_pages_of_the_tree_exist_and_each_is_there_once() -> None:
    leaves = site.leaves(tomllib.loads(CONFIGURATION)["project"]["nav"])
    assert set(leaves) - set(site.pages().values()) == set()
    assert len(set(leaves)) == len(leaves)


def test_the_changelog_says_in_forty_lines_what_a_version_contains() -> None:
    for version in re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]:
        contains = version.partition("### Still thin")[0].splitlines()[1:]
        assert len([line for line in contains if line]) <= MOST_CHANGES


@pytest.mark.parametrize("page", sorted(MANUAL.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_of_the_manual_is_short_and_has_one_title_and_a_place(page: Path) -> None:
    text = page.read_text()
    assert len(text.split()) <= MOST_WORDS
    assert re.findall(r"^# ", text, re.MULTILINE) == ["# "]
    assert page.name == "README.md" or f"]({page.name})" in (MANUAL / "README.md").read_text()
    place = site.pages()[page.relative_to(ROOT).as_posix()]
    assert place in site.leaves(tomllib.loads(CONFIGURATION)["project"]["nav"])


@pytest.mark.parametrize("document", [name for name in site.pages() if "/adr/0" not in name])
def test_links_to_a_heading_lead_to_one(document: str) -> None:
    text = (ROOT / document).read_text()
    dead = [
        f"{path}#{anchor}"
        for path, anchor in LINK.findall(text)
        if "://" not in path
        for target in [(ROOT / document).parent / path if path else ROOT / document]
        if target.suffix == ".md" and anchor not in anchors(target.read_text())
    ]
    assert dead == []
