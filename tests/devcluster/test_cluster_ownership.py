"""One owner per name."""

import os
from pathlib import Path

import pytest

from devcluster.failure import ClusterError
from devcluster.ownership import Ownership


def test_a_second_owner_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    first = Ownership(tmp_path / "trial.lock")

    with pytest.raises(ClusterError, match=rf"Cluster trial is in use by process {os.getpid()} \("):
        Ownership(tmp_path / "trial.lock")
    first.release(remove=True)


@pytest.mark.parametrize("remove", [True, False])
def test_a_name_is_free_once_its_owner_let_go(tmp_path: Path, *, remove: bool) -> None:
    Ownership(tmp_path / "trial.lock").release(remove=remove)

    again = Ownership(tmp_path / "trial.lock")
    again.release(remove=True)

    assert list(tmp_path.iterdir()) == []


def test_letting_go_twice_harms_nobody(tmp_path: Path) -> None:
    first = Ownership(tmp_path / "trial.lock")
    first.release(remove=True)
    second = Ownership(tmp_path / "trial.lock")

    first.release(remove=True)

    assert (tmp_path / "trial.lock").exists()
    second.release(remove=True)


def test_names_do_not_bar_each_other(tmp_path: Path) -> None:
    owners = [Ownership(tmp_path / f"{name}.lock") for name in ("one", "other")]

    for owner in owners:
        owner.release(remove=True)


def test_the_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    owner = Ownership(tmp_path / "state" / "trial.lock")

    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    owner.release(remove=True)
