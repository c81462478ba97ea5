"""The code in deviceplugin/kubeletapi is what proto/generate.py makes of the contracts."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = Path("deviceplugin/kubeletapi")


def _files(root: Path) -> dict[str, str]:
    folder = root / PACKAGE
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*.py*"))
        if "__pycache__" not in path.parts
    }


def test_generating_again_changes_nothing(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "proto/generate.py", str(tmp_path)], cwd=REPOSITORY, check=True)
    fresh, checked_in = _files(tmp_path), _files(REPOSITORY)
    changed = {name for name in fresh.keys() | checked_in.keys() if fresh.get(name) != checked_in.get(name)}
    assert not changed, "run `make proto` and commit the result"


def test_every_contract_has_a_name_of_its_own_in_one_process() -> None:
    apis = ("deviceplugin_v1beta1", "podresources_v1", "pods_v1alpha1", "core_v1")
    program = "\n".join(f"import deviceplugin.kubeletapi.{api}.api_pb2" for api in apis)
    subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, check=True)
