"""The node agent as in its image: the packages of its lock file, compiled, and no developers' packages.

Which packages are installed decides what is loaded: structlog, for example, loads rich if it is installed.
"""

import hashlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from devcluster.binaries.cache import cache_folder, kept
from devcluster.commands import output
from devcluster.paths import CHECKOUT

PYTHON: Final = str(Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"))
"""The interpreter from which the virtual environment was made."""
BARE: Final = (PYTHON, "-S")
"""It, without packages that are installed there: in the image there are those of the lock file alone."""
LOCK: Final = CHECKOUT / "requirements/deviceplugin.txt"
PACKAGES: Final = ("cluster", "deviceplugin")
FLOOR: Final = "import grpc, google.protobuf.message, google.protobuf.descriptor_pool, pynvml"
"""What every program must load that speaks to the kubelet and to NVML in Python."""


def libraries() -> Path:
    """The folder of the locked packages; it is built first if it is not in the cache."""
    digest = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:16]

    def make(draft: Path) -> None:
        tool = (Path(sys.executable).with_name("uv"), "pip", "install", "--quiet", "--require-hashes")
        output([*tool, "--compile-bytecode", "--python", PYTHON, "--target", draft, "--requirements", LOCK])

    return kept(cache_folder() / "bench" / f"agent-{digest}", make)


@contextmanager
def image(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which ``PYTHON -m deviceplugin`` runs as in the image.

    Args:
        folder: where the product is copied to; it must not exist, and is removed at the end.
    """
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / package, folder / package, ignore=ignored)
    environment = {"PYTHONPATH": f"{folder}:{libraries()}", "PYTHONHOME": ""}
    output([PYTHON, "-m", "compileall", "-q", folder])
    try:
        yield environment
    finally:
        shutil.rmtree(folder)
