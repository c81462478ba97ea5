"""Decisions (docs/adr): numbered without gaps, dated, and there wherever one is cited."""

import re
from pathlib import Path

import pytest

from docs.tables.decisions import FOLDER, decisions
from tests.architecture.checkout import name_of, texts, tracked

CITED = re.compile(r"\bADRs? (\d+(?:(?:, | and | to )\d+)*)")
LINKED = re.compile(r"\[ADR (\d+)\]\(([^)]+)\)")


def cited_in(text: str) -> set[int]:
    """Numbers of the decisions that a text cites; "ADRs 7 to 10" are two."""
    return {int(number) for found in CITED.findall(text) for number in re.findall(r"\d+", found)}


def test_decisions_are_numbered_without_gaps_and_in_their_file_names() -> None:
    found = sorted(decisions())
    assert [decision.number for decision in found] == list(range(1, len(found) + 1))
    assert [int(decision.file[:4]) for decision in found] == [decision.number for decision in found]


def test_a_decision_has_its_context_its_decision_and_its_consequences() -> None:
    parts = ("**Context.**", "**Decision.**", "**Consequences.**")
    texts_ = {decision.file: (FOLDER / decision.file).read_text() for decision in decisions()}
    assert {name for name, text in texts_.items() if not all(part in text for part in parts)} == set()


def test_every_cited_decision_exists() -> None:
    known = {decision.number for decision in decisions()}
    unknown = {f"{name}: ADR {n}" for name, text in texts() for n in cited_in(text) - known}
    assert not unknown


def test_a_document_that_cites_a_decision_links_to_it() -> None:
    files = {decision.number: decision.file for decision in decisions()}
    wrong = []
    for path in tracked(".md"):
        text = path.read_text()
        links = {int(number): target for number, target in LINKED.findall(text)}
        wrong += [f"{name_of(path)}: ADR {n} is not linked" for n in cited_in(text) - links.keys()]
        wrong += [
            f"{name_of(path)}: ADR {n} is linked to {target}"
            for n, target in links.items()
            if (path.parent / target).resolve() != FOLDER / files.get(n, "nowhere")
        ]
    assert not wrong


@pytest.mark.parametrize("document", tracked(".md"), ids=name_of)
def test_every_relative_link_of_a_document_leads_to_a_file(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text())
    assert [link for link in links if "://" not in link and not (document.parent / link).exists()] == []
