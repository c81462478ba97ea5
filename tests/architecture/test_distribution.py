"""What is installed: our packages only, with the licence (ADR 1, ADR 2)."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from tests.architecture.checkout import ROOT, SHIPPED


def test_the_wheel_holds_our_packages_and_nothing_else_and_the_source_the_licence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(SHIPPED)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        assert "LICENSE" in {name.partition("/")[2] for name in opened.getnames()}
