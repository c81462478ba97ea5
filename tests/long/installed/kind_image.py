"""The image of kind's simulated GPUs, built from `kind/Dockerfile` by the image builder that is here."""

import hashlib
from pathlib import Path
from typing import Final

from devcluster.binaries.cache import cache_folder, kept
from devcluster.fakenvml import build
from devcluster.images.builders import choose
from devcluster.images.image import Image
from devcluster.images.rootfs import recipe
from devcluster.paths import CHECKOUT

NAME: Final = "localhost/gpu-booking/simulated-gpus:1"
FILE: Final = "kind/Dockerfile"
TARGET: Final = "simulated-gpus"


def image() -> Image:
    """The image, built where it is not kept."""
    folder = cache_folder() / "images"
    python = Path(build.__file__).parent.glob("*.py")
    files = (CHECKOUT / FILE, CHECKOUT / f"{FILE}.dockerignore", CHECKOUT / "cluster" / "names.py")
    digest = hashlib.sha256(str(recipe()).encode())
    for path in (*files, *sorted(python), *build.sources()):
        digest.update(path.read_bytes())

    def make(draft: Path) -> None:
        choose(CHECKOUT, folder / "buildah").build(TARGET, NAME, draft / "image.tar", file=FILE)

    place = kept(folder / f"{TARGET}-{digest.hexdigest()[:16]}", make)
    return Image(NAME, place / "image.tar")
