"""Vendored files are unchanged from what their authors published, with their licence."""

import hashlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[5]
FOLDERS = (ROOT / "booking/server/web/static/vendor", ROOT / "tests/browser/vendor")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parts[-2])
def test_every_vendored_file_is_unchanged_and_has_its_licence(folder: Path) -> None:
    published = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    files = {path.name: path for path in folder.iterdir() if path.name != "SHA256SUMS"}
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()} == published
    scripts = {name.removesuffix(".min.js") for name in files if name.endswith(".js")}
    assert {f"{name}.LICENSE" for name in scripts} == {name for name in files if name.endswith(".LICENSE")}
