"""The product's images, as `make image` builds them and the end-to-end tests run them: one for each part.

They are rebuilt when anything that gets into them has changed, and kept next to the binaries.
"""

import hashlib
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, get_args

from cluster import names
from devcluster.binaries.cache import cache_folder, kept
from devcluster.binaries.progress import Progress, Report, silent
from devcluster.images.builders import Builder, choose
from devcluster.images.image import Image
from devcluster.images.rootfs import recipe
from devcluster.paths import CHECKOUT

Target = Literal["node-agent", "extender", "booking"]
TARGETS: Final[tuple[Target, ...]] = get_args(Target)
PACKAGES: Final = ("cluster", "deviceplugin", "extender", "booking")
SOURCES: Final = ("Dockerfile", ".dockerignore", "LICENSE", "requirements", *PACKAGES)
"""Files and folders that a build may see."""
KEPT: Final = 3
"""Builds that are kept: they take 200 MB each."""
_MEBI: Final = 2**20


def tag(target: Target, version: str) -> str:
    """The name under which a node knows an image that was brought onto it."""
    return f"localhost/{names.PRODUCT}/{target}:{version}"


def build(version: str, report: Report = silent, *, builder: Builder | None = None) -> tuple[Image, ...]:
    """Every image of the product, built first if the cache does not have it.

    Args:
        version: their tag.
        report: gets the progress.
        builder: by default Docker, or buildah where Docker does not answer.

    Raises:
        BuildError: it could not be built; the message says why.
    """
    folder = cache_folder() / "images"
    made = tuple(Image(tag(target, version), Path(f"{target}.tar")) for target in TARGETS)

    def make(draft: Path) -> None:
        by = builder or choose(CHECKOUT, folder / "buildah")
        for number, (target, image) in enumerate(zip(TARGETS, made, strict=True)):
            report(
                Progress(f"images of {names.PRODUCT} {version} by {by.name}", target, number, len(TARGETS))
            )
            by.build(target, image.name, draft / image.tar)
        report(Progress(f"images of {names.PRODUCT} {version} by {by.name}", "done"))

    place = kept(folder / f"product-{key(version)}", make)
    place.touch()
    _forget(folder)
    return tuple(Image(image.name, place / image.tar) for image in made)


def key(version: str, checkout: Path = CHECKOUT) -> str:
    """The name under which a build is kept: it changes when anything that gets into the images does."""
    digest = hashlib.sha256(f"{version} {recipe()}".encode())
    for path in _files(checkout):
        digest.update(f"{path.relative_to(checkout)} {path.stat().st_mode:o}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def compressed(tar: Path) -> int:
    """Bytes of an image as a registry keeps it; layers that are compressed already get no smaller."""
    packer, size = zlib.compressobj(wbits=31), 0
    with tar.open("rb") as file:
        while piece := file.read(_MEBI):
            size += len(packer.compress(piece))
    return size + len(packer.flush())


def _files(checkout: Path) -> Iterator[Path]:
    for name in SOURCES:
        root = checkout / name
        found = sorted(root.rglob("*")) if root.is_dir() else [root]
        yield from (path for path in found if path.is_file() and path.suffix not in {".pyc", ".pyi"})


def _forget(folder: Path) -> None:
    """Remove all but the newest builds: each change of the code makes another."""
    builds = [place for place in folder.glob("product-*") if place.is_dir() and not place.suffix]
    for place in sorted(builds, key=lambda place: place.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(place, ignore_errors=True)
