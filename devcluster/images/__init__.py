"""The container images of a devcluster: one static program of ours under two names, packed by ourselves.

No registry is involved. A node gets them by `ctr --namespace k8s.io images import --local FILE`; pods name
them with `imagePullPolicy: Never`.
"""

import hashlib
from pathlib import Path
from typing import Final

from cluster import names
from devcluster.binaries.cache import cache_folder, kept
from devcluster.binaries.golang import Go
from devcluster.binaries.progress import Progress, Report, silent
from devcluster.binaries.toolchain import ensure_go
from devcluster.images.image import Image
from devcluster.images.oci import architecture, write_image

__all__ = ["PAUSE", "PROBE", "Image", "ensure"]

PAUSE: Final = f"localhost/{names.PRODUCT}/pause:1"
"""Holds a pod's namespaces; containerd's sandbox image."""
PROBE: Final = f"localhost/{names.PRODUCT}/probe:1"
"""Prints one line of JSON about the GPUs that its container was given, and stays."""

SOURCE: Final = Path(__file__).parent / "probe"
BUILD: Final = ("build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w")


def ensure(report: Report = silent) -> tuple[Image, ...]:
    """Every image that a cluster needs, made first if it is not in the cache.

    Raises:
        BuildError: it could not be built; the message names what is missing and how to get it.

    """
    folder = cache_folder()

    def make(draft: Path) -> None:
        go = Go(ensure_go(folder, report), SOURCE, cgo=False)
        compiling = Progress("images", "compiling")
        report(compiling)
        program = draft / "program"

        def is_progress(line: str) -> bool:
            report(compiling)
            return not line

        go.run("Building the images' program", [*BUILD, "-o", str(program), "."], is_progress)
        for image in _images(draft):
            write_image(image.tar, image.name, program, called=image.tar.stem)
        program.unlink()
        report(Progress("images", "done"))

    place = kept(folder / "images" / key(), make, whole=_is_whole)
    return _images(place)


def key(source: Path = SOURCE) -> str:
    """The name under which the images are kept: it changes when anything that decides them does."""
    digest = hashlib.sha256(f"{BUILD} {PAUSE} {PROBE} {architecture()}".encode())
    for file in (source / "go.mod", source / "main.go", Path(__file__).parent / "oci.py"):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _images(place: Path) -> tuple[Image, ...]:
    return (Image(PAUSE, place / "pause.tar"), Image(PROBE, place / "probe.tar"))


def _is_whole(place: Path) -> bool:
    return all(image.tar.is_file() for image in _images(place))
