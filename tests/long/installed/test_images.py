"""What is in the images that pods of the chart run, as the image builder that is here has built them."""

import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from cluster.version import VERSION
from devcluster.images import product
from devcluster.images.__main__ import TARGET_MB
from devcluster.images.product import TARGETS, Target, compressed
from devcluster.paths import CHECKOUT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]  # images are built first, where they are not kept

OURS: Final = "opt/gpu-booking/"
NOBODY: Final = "65532:65532"
PARTS: Final[dict[Target, tuple[str, str, str]]] = {
    "node-agent": ("deviceplugin", "deviceplugin", "0:0"),
    "extender": ("extender", "extender", NOBODY),
    "booking": ("booking", "booking", NOBODY),
}
"""Target -> its package, its lock, the user as which it runs."""
PACKAGES: Final = {"booking", "cluster", "deviceplugin", "devcluster", "extender"}


@dataclass(frozen=True)
class Image:
    """One image."""

    tar: Path
    configuration: Mapping[str, Any]
    files: frozenset[str]
    """Paths without the slash before them."""


@pytest.fixture(scope="module")
def images() -> dict[Target, Image]:
    built = product.build(VERSION)
    return {target: opened(image.tar) for target, image in zip(TARGETS, built, strict=True)}


def opened(tar: Path) -> Image:
    files: set[str] = set()
    with tarfile.open(tar) as archive:

        def read(name: str) -> Any:
            file = archive.extractfile(name)
            assert file
            return json.load(file)

        def blob(described: Mapping[str, str]) -> str:
            return f"blobs/{described['digest'].replace(':', '/')}"

        manifest = read(blob(read("index.json")["manifests"][0]))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=archive.extractfile(blob(layer)), mode="r|*") as content:
                files |= {member.name.removeprefix("./") for member in content}
        return Image(tar, read(blob(manifest["config"]))["config"], frozenset(files))


@pytest.mark.parametrize("target", TARGETS)
def test_every_image_but_the_node_agents_runs_its_part_as_nobody(
    images: dict[Target, Image], target: Target
) -> None:
    package, _, user = PARTS[target]
    configuration = images[target].configuration
    assert configuration["User"] == user
    assert " ".join([*configuration["Entrypoint"], *(configuration.get("Cmd") or ())]).startswith(
        f"python3 -m {package}"
    )


@pytest.mark.parametrize("target", TARGETS)
def test_every_module_is_compiled_including_those_of_python_itself(
    images: dict[Target, Image], target: Target
) -> None:
    """The file system is read-only: what is not compiled is compiled again at every start."""
    files = images[target].files
    compiled = {re.sub(r"__pycache__/(.+)\.cpython-\d+\.pyc$", r"\1.py", name) for name in files}
    modules = {name for name in files if name.endswith(".py") and "-packages/" not in name}
    assert len({name for name in modules if name.startswith(OURS)}) > 100
    assert len({name for name in modules if re.match(r"usr/(local/)?lib/python3", name)}) > 100
    assert sorted(modules - compiled) == []


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_has_what_its_part_needs_and_nothing_else(
    images: dict[Target, Image], target: Target
) -> None:
    package, lock, _ = PARTS[target]
    here = {name.removeprefix(OURS).partition("/")[0] for name in images[target].files if OURS in name}
    assert here & PACKAGES == {"cluster", package}
    installed = {normal(name.partition("-")[0]) for name in here if name.endswith(".dist-info")}
    locked = re.findall(
        r"^([\w.-]+)==", (CHECKOUT / "requirements" / f"{lock}.txt").read_text(), re.MULTILINE
    )
    assert installed
    assert installed <= set(map(normal, locked))


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_is_as_small_as_documented(images: dict[Target, Image], target: Target) -> None:
    assert compressed(images[target].tar) / 1e6 <= TARGET_MB[target]


def normal(name: str) -> str:
    """A distribution's name as files and locks may spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()
