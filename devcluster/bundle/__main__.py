"""``python -m devcluster.bundle [--python 3.12] [--out FOLDER]``: see the package."""

import argparse
import json
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from cluster import names
from cluster.process.clock import SystemClock
from cluster.version import VERSION
from devcluster import binaries, images
from devcluster.binaries.cache import cache_folder
from devcluster.bundle import host_programs, packages
from devcluster.bundle.parts import Pieces, write
from devcluster.errors import ClusterError
from devcluster.paths import CHECKOUT

SOURCES = ("LICENSE", "pyproject.toml", "charts", "devcluster", "tests")
"""What the tests need of the checkout; the product itself is among the packages."""


def main() -> int:
    """Write the files. Returns the exit code."""
    arguments = _arguments()
    try:
        pack(Path(arguments.out).resolve(), python=arguments.python)
    except (ClusterError, binaries.BuildError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def pack(out: Path, *, python: str) -> None:
    """Write everything into a folder, whose earlier files are removed.

    Args:
        out: the folder.
        python: the version on the machine with the GPU, as ``3.12``.

    Raises:
        ClusterError: a package is missing, or a command fails.
        BuildError: a binary cannot be built.
    """
    built = binaries.ensure(binaries.ProgressLine(sys.stderr, SystemClock()))
    made = images.ensure(binaries.ProgressLine(sys.stderr, SystemClock()))
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    machine, pieces = platform.machine(), Pieces(out)
    with tempfile.TemporaryDirectory() as draft:
        site = Path(draft, "site")
        site.mkdir()
        packages.install(site, python=python, machine=machine)
        contents = {
            "site": site,
            **{f"checkout/{name}": CHECKOUT / name for name in SOURCES},
            **_kept(built.root, *(image.tar.parent for image in made)),
            **host_programs.contents(built.path("runc").resolve()),
        }
        write(pieces, contents)
    facts = {"version": VERSION, "python": python, "machine": machine, "parts": pieces.digests}
    (out / "manifest.json").write_text(f"{json.dumps(facts, indent=2)}\n")
    shutil.copyfile(Path(__file__).with_name("run.py"), out / "run")
    (out / "run").chmod(0o755)
    for file in sorted(out.iterdir()):
        print(f"{file.stat().st_size / 2**20:7.1f} MiB  {file}")


def _kept(*folders: Path) -> dict[str, Path]:
    """The cache as that machine gets it: these folders, and those that their links lead to."""
    leading = {path.resolve().parent for folder in folders for path in folder.iterdir()}
    found = {*folders, *leading}
    return {f"cache/{names.PRODUCT}/{folder.relative_to(cache_folder())}": folder for folder in found}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m devcluster.bundle", description=__doc__)
    here = ".".join(platform.python_version_tuple()[:2])
    parser.add_argument("--python", default=here, help="version on the machine with the GPU (%(default)s)")
    parser.add_argument("--out", default="dist/gpu-bundle", help="folder for the files (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
