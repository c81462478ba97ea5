"""Which files of the NVIDIA driver a container needs, and where they are: a plan over a listing of files.

Used by ``cdi``. A container gets the driver's own libraries and tools read-only, because they must have the
version of the kernel module, which no image can know. A link such as ``libcuda.so.1`` becomes a mount of the
file that it leads to, so that no links have to be created in a container. ``ldcache_hook`` makes the loader
find them. As with NVIDIA's container toolkit, the container also gets the files by which EGL, Vulkan and
OptiX find the driver, and its firmware.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "lib64",
    "usr/local/nvidia/lib64",
)
BINARY_FOLDERS = ("usr/bin", "bin", "usr/local/nvidia/bin")
BINARIES = frozenset(
    {
        "nvidia-smi",
        "nvidia-debugdump",
        "nvidia-persistenced",
        "nvidia-cuda-mps-control",
        "nvidia-cuda-mps-server",
    }
)

DATA = {
    "usr/share/glvnd/egl_vendor.d": "10_nvidia.json",
    "etc/glvnd/egl_vendor.d": "10_nvidia.json",
    "usr/share/vulkan/icd.d": "nvidia_icd*.json",
    "etc/vulkan/icd.d": "nvidia_icd*.json",
    "usr/share/vulkan/implicit_layer.d": "nvidia_layers*.json",
    "etc/vulkan/implicit_layer.d": "nvidia_layers*.json",
    "usr/share/nvidia": "nvoptix.bin",
}
"""Folder -> its files for a container: headless rendering finds the libraries by them."""
FIRMWARE_FOLDERS = ("usr/lib/firmware/nvidia", "lib/firmware/nvidia")
"""Folders with one folder for each version."""
FIRMWARE = "gsp*.bin"

LIBRARY = "libnvidia-ml.so.1"

_VERSIONED = re.compile(r"^libnvidia-ml\.so\.(\d+\.\d+(?:\.\d+)?)$")


@dataclass(frozen=True)
class Found:
    """A file under the driver's root."""

    path: str
    """Its absolute path as seen from that root."""
    target: str
    """The file that it leads to (itself, unless it is a link), likewise absolute."""


@dataclass(frozen=True)
class Mount:
    """One file that is mounted into a container, read-only."""

    container_path: str
    path: str
    """Absolute, as seen from the driver's root."""


def driver_version(files: Iterable[Found]) -> str | None:
    """The driver's version, by the name of its management library; None without one.

    Of several versions it is the highest: files that an update has left behind are older.
    """
    matches = (_VERSIONED.match(Path(file.path).name) for file in files)
    return max((match.group(1) for match in matches if match), key=_numbers, default=None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def plan(files: Iterable[Found]) -> tuple[Mount, ...]:
    """The mounts for a container: all files of the driver's version, links to them, tools and ``DATA``."""
    listed = tuple(files)
    version = driver_version(listed)
    if version is None:
        return ()
    folders = {*DATA, *(f"{folder}/{version}" for folder in FIRMWARE_FOLDERS)}
    chosen = {
        file.path: file.target
        for file in listed
        if Path(file.path).name in BINARIES
        or Path(file.target).name.endswith(f".so.{version}")
        or _folder_of(file) in folders
    }
    return tuple(Mount(path, target) for path, target in sorted(chosen.items()))


def library_under(root: Path) -> Path | None:
    """The path of the driver's management library under its root; None if there is none."""
    candidates = (root / folder / LIBRARY for folder in LIBRARY_FOLDERS)
    return next((path for path in candidates if path.is_file()), None)


def find(root: Path) -> tuple[Found, ...]:
    """The files under the driver's root that the plan is made from; folders that are links are left out."""
    libraries = (path for folder in LIBRARY_FOLDERS for path in _entries(root, folder, "lib*.so*"))
    binaries = (path for folder in BINARY_FOLDERS for path in _entries(root, folder, "nvidia-*"))
    data = (path for folder, pattern in DATA.items() for path in _entries(root, folder, pattern))
    firmware = (
        path
        for folder in FIRMWARE_FOLDERS
        for version in _entries(root, folder, "*")
        for path in _entries(root, f"{folder}/{version.name}", FIRMWARE)
    )
    found = (_found(root, path) for path in (*libraries, *binaries, *data, *firmware))
    return tuple(file for file in found if file is not None)


def _folder_of(file: Found) -> str:
    return file.path.rpartition("/")[0].lstrip("/")


def _entries(root: Path, folder: str, pattern: str) -> list[Path]:
    """The folder's entries; none if a part of its path is a link (``/lib`` -> ``/usr/lib``)."""
    place = root / folder
    parts = [place, *place.parents][: len(Path(folder).parts)]
    if any(part.is_symlink() for part in parts) or not place.is_dir():
        return []
    return sorted(place.glob(pattern))


def _found(root: Path, path: Path) -> Found | None:
    try:
        target = path.resolve(strict=True)
        inside = target.relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):
        # The link is dangling, leads to itself (RuntimeError before Python 3.13), or leads out of the root.
        return None
    return Found(f"/{path.relative_to(root)}", f"/{inside}") if target.is_file() else None
