"""The code in deviceplugin/kubeletapi is, byte for byte, what ``make proto`` makes of the contracts."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT

PACKAGE = Path("deviceplugin/kubeletapi")
GENERATOR = "proto/generate.py"


def generated(root: Path) -> dict[str, bytes]:
    folder = root / PACKAGE
    paths = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    into = tmp_path_factory.mktemp("generated")
    subprocess.run([sys.executable, GENERATOR, str(into)], cwd=ROOT, check=True)
    return generated(into)


def test_generating_again_changes_no_byte(fresh: dict[str, bytes]) -> None:
    kept = generated(ROOT)
    changed = {name for name in fresh.keys() | kept.keys() if fresh.get(name) != kept.get(name)}
    assert not changed, "run `make proto` and commit the result"


def test_code_is_generated_from_every_contract(fresh: dict[str, bytes]) -> None:
    contracts = {path.parent.name for path in (ROOT / "proto").rglob("*.proto")}
    assert contracts
    assert {name.split("/")[0] for name in fresh if name.endswith("/api_pb2.py")} == contracts


def test_all_generated_contracts_can_be_imported_in_one_process() -> None:
    apis = ("deviceplugin_v1beta1", "podresources_v1", "pods_v1alpha1", "core_v1")
    program = "\n".join(f"import deviceplugin.kubeletapi.{api}.api_pb2" for api in apis)
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
