"""Which clusters of a machine are left behind, and that only these are removed."""

from pathlib import Path

import msgspec
import pytest

from devcluster import machine
from devcluster.errors import ClusterError
from devcluster.lockfile import InUseError, Lockfile, Owner, owner_of
from devcluster.machine import Found, found, remove_left_behind
from devcluster.paths import Paths

BY_NOBODY = Owner("trial", "/srv/state", 4_194_304, 1, "make test")
"""Its process cannot be alive: Linux gives no such PID."""


def place(folder: Path, name: str = "trial") -> Paths:
    return Paths(name, folder / "state", folder / "locks")


def no_others() -> tuple[Path, ...]:
    """No state of this machine: others may have left a cluster at this moment."""
    return ()


def abandoned(where: Paths) -> None:
    """Make what an owner leaves that was killed."""
    where.state.mkdir(parents=True)
    where.locks.mkdir(exist_ok=True)
    owner = msgspec.structs.replace(BY_NOBODY, name=where.name, root=str(where.root))
    where.lock.write_bytes(msgspec.json.encode(owner))


@pytest.mark.parametrize(
    ("kept", "runs", "left"),
    [(False, False, True), (False, True, True), (True, True, False), (True, False, True)],
)
def test_a_cluster_of_a_dead_owner_stays_only_if_it_was_kept_and_runs(
    tmp_path: Path, *, kept: bool, runs: bool, left: bool
) -> None:
    owner = msgspec.structs.replace(BY_NOBODY, kept=kept)
    assert Found(place(tmp_path), owner, runs).is_left_behind == left


@pytest.mark.parametrize("runs", [True, False])
def test_a_cluster_of_a_living_owner_is_not_left_behind(tmp_path: Path, *, runs: bool) -> None:
    ownership = Lockfile(place(tmp_path))
    assert not Found(place(tmp_path), owner_of(place(tmp_path).lock), runs).is_left_behind
    ownership.release(remove=True)


@pytest.mark.parametrize("runs", [True, False])
def test_a_cluster_of_an_unknown_owner_stays_while_it_runs(tmp_path: Path, *, runs: bool) -> None:
    assert Found(place(tmp_path), None, runs).is_left_behind is not runs


def test_clusters_of_dead_owners_are_removed_and_reported_and_others_are_not_touched(tmp_path: Path) -> None:
    abandoned(place(tmp_path, "dead"))
    living = Lockfile(place(tmp_path, "living"))
    removed: list[str] = []
    messages: list[str] = []

    remove_left_behind(
        messages.append,
        locks=tmp_path / "locks",
        states=no_others,
        remove=lambda where: removed.append(where.name),
    )

    assert removed == ["dead"]
    assert messages == [f"removed cluster dead in {tmp_path / 'state'}: its owner is dead"]
    living.release(remove=True)


@pytest.mark.parametrize(
    ("error", "reported"),
    [(InUseError("Cluster dead is in use."), []), (ClusterError("Mounted."), ["Mounted."])],
)
def test_a_cluster_that_cannot_be_removed_delays_no_other(
    tmp_path: Path, error: ClusterError, reported: list[str]
) -> None:
    for name in ("a", "b"):
        abandoned(place(tmp_path, name))
    messages: list[str] = []

    def remove(where: Paths) -> None:
        if where.name == "a":
            raise error

    remove_left_behind(messages.append, locks=tmp_path / "locks", states=no_others, remove=remove)

    assert [line for line in messages if "could not be removed" in line] == [
        f"cluster a in {tmp_path / 'state'}, whose owner is dead, could not be removed: {words}"
        for words in reported
    ]
    assert messages[-1].startswith("removed cluster b ")


def test_clusters_of_every_checkout_are_found(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        abandoned(Paths("trial", tmp_path / folder, tmp_path / "locks"))

    there = [one for one in found(tmp_path / "locks") if one.paths.root.is_relative_to(tmp_path)]

    assert [one.paths.root.name for one in there] == ["one", "other"]
    assert not any(one.runs for one in there)
    assert machine.LOCKS.is_absolute()


@pytest.mark.parametrize("name", ["..", "../elsewhere", "No/Name", ""])
def test_a_lock_with_an_impossible_cluster_name_is_ignored(tmp_path: Path, name: str) -> None:
    abandoned(place(tmp_path))
    owner = msgspec.structs.replace(BY_NOBODY, name=name, root=str(tmp_path / "state"))
    place(tmp_path).lock.write_bytes(msgspec.json.encode(owner))

    assert not [one for one in found(tmp_path / "locks") if one.paths.root.is_relative_to(tmp_path)]


def test_locks_in_another_users_folder_are_not_trusted(tmp_path: Path) -> None:
    abandoned(place(tmp_path))
    (tmp_path / "link").symlink_to(tmp_path / "locks")

    assert [one for one in found(tmp_path / "locks") if one.paths.root.is_relative_to(tmp_path)]
    assert not [one for one in found(tmp_path / "link") if one.paths.root.is_relative_to(tmp_path)]
