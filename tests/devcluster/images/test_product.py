"""The product's images: what builds them, what gets into them, and when they are rebuilt."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from devcluster.binaries.errors import BuildError
from devcluster.images import product
from devcluster.images.builders import Buildah, Docker, choose
from devcluster.images.product import SOURCES, TARGETS, build, compressed, key
from devcluster.images.rootfs import run
from devcluster.paths import CHECKOUT

CHANGES: dict[str, Callable[[Path], object]] = {
    "a line of the Dockerfile": lambda tree: _append(tree / "Dockerfile"),
    "a module": lambda tree: _append(tree / "cluster" / "names.py"),
    "a page": lambda tree: _append(tree / "booking" / "server" / "web" / "static" / "page.css"),
    "a lock": lambda tree: _append(tree / "requirements" / "extender.txt"),
    "a new file": lambda tree: (tree / "extender" / "new.py").write_text(""),
}


def _append(path: Path) -> None:
    path.write_text(path.read_text() + "\n")


class FakeBuilder:
    """Writes the target's name as its image, and records what it was asked for."""

    name = "fake"

    def __init__(self) -> None:
        self.built: list[tuple[str, str]] = []

    def build(self, target: str, tag: str, tar: Path) -> None:
        self.built.append((target, tag))
        tar.write_bytes(target.encode())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in SOURCES:
        found = CHECKOUT / name
        (shutil.copytree if found.is_dir() else shutil.copy)(found, tmp_path / name)
    return tmp_path


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("GPU_BOOKING_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "images"


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_of_any_file_in_the_images_changes_their_key(
    tree: Path, change: Callable[[Path], object]
) -> None:
    before = key("1.0", tree)
    assert before == key("1.0", tree)
    change(tree)
    assert key("1.0", tree) != before


def test_compiled_code_next_to_a_module_does_not_change_the_key(tree: Path) -> None:
    before = key("1.0", tree)
    (tree / "cluster" / "names.cpython-311.pyc").write_bytes(b"compiled")
    assert key("1.0", tree) == before


def test_images_are_built_once_and_their_old_builds_are_removed(cache: Path) -> None:
    builder = FakeBuilder()
    first = build("1.0", builder=builder)
    assert build("1.0", builder=builder) == first
    assert builder.built == [(target, image.name) for target, image in zip(TARGETS, first, strict=True)]
    assert [image.tar.read_bytes().decode() for image in first] == list(TARGETS)
    for version in ("1.1", "1.2", "1.3"):
        build(version, builder=builder)
    assert len([place for place in cache.glob("product-*") if place.is_dir()]) == product.KEPT
    assert not first[0].tar.exists()


def test_docker_builds_where_its_daemon_and_buildkit_answer(tmp_path: Path) -> None:
    assert isinstance(choose(CHECKOUT, tmp_path, lambda _command: True), Docker)


@pytest.mark.parametrize("missing", [["docker", "version"], ["docker", "buildx", "version"]])
def test_buildah_builds_where_docker_cannot(tmp_path: Path, missing: list[str]) -> None:
    assert isinstance(choose(CHECKOUT, tmp_path, lambda command: command != missing), Buildah)


def test_a_build_that_fails_ends_in_the_builders_own_words() -> None:
    with pytest.raises(BuildError, match=r"The image extender failed: .* ended with 3:\nno room"):
        run(["sh", "-c", "echo no room >&2; exit 3"], {"PATH": "/usr/bin:/bin"}, what="The image extender")


def test_a_builder_that_is_missing_is_named() -> None:
    with pytest.raises(BuildError, match="needs `buildah-of-nowhere`, which is not there: `make host`"):
        run(["buildah-of-nowhere"], {"PATH": "/nowhere"}, what="The image extender")


def test_a_size_is_that_of_the_compressed_image(tmp_path: Path) -> None:
    tar = tmp_path / "image.tar"
    tar.write_bytes(bytes(5_000_000))
    assert 0 < compressed(tar) < 50_000


def test_the_dockerfile_has_a_target_for_each_image() -> None:
    stages = re.findall(r"^FROM \S+ AS (\S+)$", (CHECKOUT / "Dockerfile").read_text(), re.MULTILINE)
    assert set(TARGETS) <= set(stages)
