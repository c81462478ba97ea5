"""Which packages of the lock for development are bundled, and which libraries of a program."""

import importlib.metadata
import re
import sys
from pathlib import Path

import pytest

from devcluster.bundle import host_programs, packages
from devcluster.errors import ClusterError
from devcluster.paths import CHECKOUT

LOCK = CHECKOUT / "requirements/dev.txt"


def test_an_entry_is_taken_with_its_hashes_and_nothing_of_its_neighbours() -> None:
    alpha = "alpha==1 \\\n    --hash=sha256:aa\n    # via beta\n"
    beta = "beta==2 ; sys_platform == 'x' \\\n    --hash=sha256:bb\n"
    lock = alpha + beta
    assert packages.chosen(lock, ("beta",)) == beta
    with pytest.raises(ClusterError, match="gamma"):
        packages.chosen(lock, ("beta", "gamma"))


def test_the_lock_has_the_packages_that_run_the_tests_with_all_dependencies() -> None:
    assert packages.chosen(LOCK.read_text(), packages.TESTING).count("==") >= len(packages.TESTING)
    for name in packages.TESTING:
        for need in importlib.metadata.requires(name) or ():
            if ";" not in need:
                assert re.split(r"[\[<>=!~ ]", need)[0].lower() in packages.TESTING, f"{name} needs {need}"


def test_an_invalid_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="newest"):
        packages.install(tmp_path, python="newest", machine="x86_64")


def test_the_c_library_is_not_bundled() -> None:
    names = {path.name for path in host_programs.libraries_of(Path(sys.executable).resolve())}
    assert not {name for name in names if name.startswith(("libc.so", "ld-linux", "linux-vdso"))}
