"""The code in deviceplugin/kubeletapi is, byte for byte, what ``make proto`` makes of the contracts."""

import subprocess
import sys
from pathlib import Path

from tests.architecture.checkout import ROOT

PACKAGE = Path("deviceplugin/kubeletapi")


def generated(root: Path) -> dict[str, bytes]:
    folder = root / PACKAGE
    paths = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_generating_again_changes_no_byte(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "proto/generate.py", str(tmp_path)], cwd=ROOT, check=True)
    fresh, kept = generated(tmp_path), generated(ROOT)
    changed = {name for name in fresh.keys() | kept.keys() if fresh.get(name) != kept.get(name)}
    assert not changed, "run `make proto` and commit the result"
