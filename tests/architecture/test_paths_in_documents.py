"""Paths that documents name exist: a move leaves no old one behind."""

import re
from pathlib import Path

import pytest

from tests.architecture.checkout import MANUAL, ROOT, name_of, tracked

CODE_OR_FOLDER = re.compile(r"`([\w./-]*\w\.(?:py|c|h|go)|(?:[\w-]+/)+)`")
TEST = re.compile(r"\b(tests/[\w./-]*\w)(?![\w/*<{-])")
DOCUMENTS = [
    *("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"),
    *sorted(name_of(path) for path in (*ROOT.glob("docs/*.md"), *MANUAL.glob("*.md"))),
]
NOT_OURS = {"extender.go", "slugs.py"}
"""A file of kube-scheduler, and one of kubespawner."""


def ends() -> set[str]:
    """Every path of a file or folder, and how it ends, from each ``/`` on."""
    paths = {name_of(path) for path in tracked()}
    paths |= {f"{folder}/" for path in paths for folder in Path(path).parents}
    return {
        "/" + "/".join(parts[i:]) for path in paths if (parts := path.split("/")) for i in range(len(parts))
    }


ENDS = ends()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_in_documents_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    paths = {*CODE_OR_FOLDER.findall(text), *TEST.findall(text)} - NOT_OURS
    assert [path for path in paths if f"/{path}" not in ENDS and not (ROOT / path).exists()] == []
