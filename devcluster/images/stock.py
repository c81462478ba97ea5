"""The image of a stock kube-scheduler, packed from our own binary: none can be pulled here.

It contains the kube-scheduler of the cluster's version of Kubernetes, at the path of the released image's.
"""

import hashlib
from pathlib import Path
from typing import Final

from cluster import names
from devcluster.binaries.cache import cache_folder, kept
from devcluster.images.image import Image
from devcluster.images.oci import write_image

KUBE_SCHEDULER: Final = f"localhost/{names.PRODUCT}/kube-scheduler:1"
_PROGRAM: Final = "usr/local/bin/kube-scheduler"


def kube_scheduler(kubebox: Path) -> Image:
    """The image, made first if the cache does not have it.

    Args:
        kubebox: Kubernetes' programs in one executable, which acts as the program by whose name it is called.
    """
    with kubebox.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    tar = Path("kube-scheduler.tar")

    def make(draft: Path) -> None:
        write_image(draft / tar, KUBE_SCHEDULER, kubebox, called=_PROGRAM)

    return Image(KUBE_SCHEDULER, kept(cache_folder() / "images" / f"kube-scheduler-{digest}", make) / tar)
