"""Decisions (docs/adr): numbered without gaps, dated, and there wherever one is cited."""

import re
from pathlib import Path

import pytest

from docs.tables.decisions import decisions
from tests.architecture.checkout import name_of, texts, tracked

CITED = re.compile(r"\bADRs? (\d+(?:(?:, | and | to )\d+)*)")


def cited_in(text: str) -> set[int]:
    """Numbers of the decisions that a text cites; "ADRs 7 to 10" are two."""
    return {int(number) for found in CITED.findall(text) for number in re.findall(r"\d+", found)}


def test_decisions_are_numbered_without_gaps_and_in_their_file_names() -> None:
    found = sorted(decisions())
    assert [decision.number for decision in found] == list(range(1, len(found) + 1))
    assert [int(decision.file[:4]) for decision in found] == [decision.number for decision in found]


def test_every_cited_decision_exists() -> None:
    known = {decision.number for decision in decisions()}
    unknown = {f"{name}: ADR {n}" for name, text in texts() for n in cited_in(text) - known}
    assert not unknown


@pytest.mark.parametrize("document", tracked(".md"), ids=name_of)
def test_every_relative_link_of_a_document_leads_to_a_file(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text())
    assert [link for link in links if "://" not in link and not (document.parent / link).exists()] == []
