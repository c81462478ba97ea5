"""Compiles the simulated ``libnvidia-ml.so.1``, once per machine, source text and compiler."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from cluster import names

SONAME = "libnvidia-ml.so.1"
"""The name for which pynvml asks the loader: a library of this name that is loaded already is used."""

_FLAGS = ("-std=gnu11", "-O1", "-shared", "-fPIC", "-fvisibility=hidden")


class CompilerMissingError(RuntimeError):
    """There is no C compiler, or it cannot compile the simulated NVML. The text says what to do."""


def sources() -> tuple[Path, ...]:
    """The C sources and the header, in a stable order."""
    return tuple(sorted(path for path in Path(__file__).parent.iterdir() if path.suffix in {".c", ".h"}))


def cache_folder() -> Path:
    """The folder of what this product builds, shared by all checkouts: ``GPU_BOOKING_CACHE``, or XDG's."""
    if explicit := os.environ.get(names.setting("cache")):
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / names.PRODUCT


def library() -> Path:
    """The path of the simulated library, compiled if it is not in the cache yet.

    Raises:
        CompilerMissingError: no C compiler, or it failed.
    """
    compiler = _compiler()
    folder = cache_folder() / "fakenvml" / _fingerprint(compiler)
    target = folder / SONAME
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _compile(compiler, target)
    return target


def _compiler() -> str:
    wanted = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    found = next((path for name in wanted if name and (path := shutil.which(name))), None)
    if found is None:
        raise CompilerMissingError(
            "The simulated NVML needs a C compiler and none is on PATH: install one (apt-get install gcc "
            "libc6-dev) or name it in CC."
        )
    return found


def _fingerprint(compiler: str) -> str:
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout
    digest = hashlib.sha256(version + repr(_FLAGS).encode())
    for path in sources():
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(compiler: str, target: Path) -> None:
    """Write next to the target and rename: several processes may do this at the same time."""
    units = [str(path) for path in sources() if path.suffix == ".c"]
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        fresh = Path(scratch) / SONAME
        command = [compiler, *_FLAGS, f"-Wl,-soname,{SONAME}", "-o", str(fresh), *units, "-lpthread"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CompilerMissingError(
                f"The simulated NVML does not compile with {compiler} (is libc6-dev installed?):\n"
                f"{done.stderr.strip()}"
            )
        fresh.replace(target)
