"""One owner per cluster, and who it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.lockfile import InUseError, Lockfile, owner_of
from devcluster.paths import Paths


def paths_of(folder: Path, name: str = "trial") -> Paths:
    return Paths(name, folder / "state", folder / "locks")


def test_a_second_owner_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    first = Lockfile(paths_of(tmp_path))

    with pytest.raises(InUseError, match=rf"Cluster trial is in use by process {os.getpid()} \("):
        Lockfile(paths_of(tmp_path))
    first.release(remove=True)


@pytest.mark.parametrize("remove", [True, False])
def test_a_name_is_free_once_its_owner_has_released_it(tmp_path: Path, *, remove: bool) -> None:
    Lockfile(paths_of(tmp_path)).release(remove=remove)

    again = Lockfile(paths_of(tmp_path))
    again.release(remove=True)

    assert list((tmp_path / "locks").iterdir()) == []


def test_releasing_a_lock_twice_does_no_harm(tmp_path: Path) -> None:
    first = Lockfile(paths_of(tmp_path))
    first.release(remove=True)
    second = Lockfile(paths_of(tmp_path))

    first.release(remove=True)

    assert paths_of(tmp_path).lock.exists()
    second.release(remove=True)


def test_different_names_do_not_block_each_other(tmp_path: Path) -> None:
    owners = [Lockfile(paths_of(tmp_path, name)) for name in ("one", "other")]

    for owner in owners:
        owner.release(remove=True)


def test_state_folders_do_not_block_each_other_although_their_locks_lie_in_one_place(
    tmp_path: Path,
) -> None:
    locks = tmp_path / "locks"
    owners = [Lockfile(Paths("trial", tmp_path / folder, locks)) for folder in ("one", "other")]

    assert len(list(locks.iterdir())) == 2
    for owner in owners:
        owner.release(remove=True)


def test_the_folder_of_the_state_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    owner = Lockfile(paths_of(tmp_path))

    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    owner.release(remove=True)


def test_a_lock_that_was_released_without_removal_says_that_the_cluster_is_kept(tmp_path: Path) -> None:
    lockfile = Lockfile(paths_of(tmp_path))
    owner = owner_of(paths_of(tmp_path).lock)
    assert owner
    assert (owner.name, owner.root, owner.process) == ("trial", str(tmp_path / "state"), os.getpid())
    assert owner.lives
    assert not owner.kept

    lockfile.release(remove=False)

    after = owner_of(paths_of(tmp_path).lock)
    assert after
    assert after.kept


def test_an_owner_that_has_ended_is_not_alive_and_blocks_no_other(tmp_path: Path) -> None:
    text = (
        "import os, sys\nfrom pathlib import Path\nfrom devcluster.lockfile import Lockfile\n"
        "from devcluster.paths import Paths\nf = Path(sys.argv[1])\n"
        "Lockfile(Paths('trial', f / 'state', f / 'locks'))\nos._exit(0)"
    )
    subprocess.run([sys.executable, "-c", text, str(tmp_path)], check=True)

    owner = owner_of(paths_of(tmp_path).lock)

    assert owner
    assert not owner.lives
    assert not owner.kept
    assert "-c import os, sys from pathlib import Path" in owner.command  # in one line
    Lockfile(paths_of(tmp_path)).release(remove=True)


def test_a_lock_without_content_has_no_known_owner(tmp_path: Path) -> None:
    assert owner_of(tmp_path / "none") is None
    (tmp_path / "empty").touch()
    assert owner_of(tmp_path / "empty") is None
