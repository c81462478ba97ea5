"""Every cluster of this machine, whichever checkout started it: finding and removing them."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cluster import names
from devcluster import cleanup
from devcluster import cluster as clusters
from devcluster.cgroups import CgroupTree
from devcluster.errors import ClusterError
from devcluster.lockfile import InUseError, Owner, owner_of
from devcluster.paths import LOCKS, Paths, default_root, is_own, paths_of

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Found:
    """A cluster that runs, or of which something is left.

    Args:
        paths: of its files.
        owner: the process that started it last; None if unknown.
        runs: whether its first process answers.
    """

    paths: Paths
    owner: Owner | None
    runs: bool

    @property
    def is_left_behind(self) -> bool:
        """Whether its owner is dead, and it was not kept or does not run.

        If the owner is unknown: whether it does not run.
        """
        if self.owner is None:
            return not self.runs
        return not self.owner.lives and not (self.owner.kept and self.runs)

    def __str__(self) -> str:
        """The cluster's name, and the root of its state unless that is the default."""
        root = self.paths.root
        return self.paths.name if root == default_root().resolve() else f"{self.paths.name} in {root}"


def stored_states() -> Iterator[Path]:
    """State folders of this checkout's clusters, and of every cluster in the folder for temporary files."""
    yield from (state for state in default_root().resolve().glob("*") if state.is_dir())
    others = Path(tempfile.gettempdir()).resolve().glob(f"{names.FOLDER_PREFIX}*/*/cluster.json")
    yield from (record.parent for record in others)


def found(locks: Path = LOCKS, states: Callable[[], Iterable[Path]] = stored_states) -> list[Found]:
    """Every cluster that has a lock or state, sorted by name."""
    there = {where.mark: where for where in (*_locked(locks), *_stored(locks, states()))}
    return sorted(
        (Found(where, owner_of(where.lock), _runs(where)) for where in there.values()),
        key=lambda one: (one.paths.name, one.paths.root),
    )


def remove_left_behind(
    report: Report,
    *,
    locks: Path = LOCKS,
    states: Callable[[], Iterable[Path]] = stored_states,
    remove: Callable[[Paths], object] = clusters.remove_at,
) -> None:
    """Remove every cluster that is left behind.

    Args:
        report: called for each that was removed, or could not be.
        locks: folder of the locks.
        states: lists folders of state, which may have no lock.
        remove: removes one; InUseError if another process starts or removes it at this moment.
    """
    for one in found(locks, states):
        if one.is_left_behind:
            try:
                remove(one.paths)
            except InUseError:
                continue
            except ClusterError as error:
                report(f"cluster {one}, whose owner is dead, could not be removed: {error}")
            else:
                report(f"removed cluster {one}: its owner is dead")


def remove_all(report: Report) -> None:
    """Remove every cluster of this machine, even one in use; `report` is called for each of them."""
    groups = CgroupTree()
    for one in found():
        cleanup.clean(one.paths, groups)
        one.paths.lock.unlink(missing_ok=True)
        one.paths.remove_root_if_empty()
        used = (
            f", which {one.owner} was using" if one.owner and one.owner.lives and not one.owner.kept else ""
        )
        report(f"cluster {one} is gone{used}")
    for mark in sorted(groups.marks()):
        cleanup.clean_kernel(mark, groups)
        report(f"what was left of {mark} is gone")


def _locked(locks: Path) -> Iterator[Paths]:
    if not is_own(locks):
        return  # another user could name any cluster in it, and have that removed
    for lock in locks.glob(f"{names.MARK_PREFIX}*.lock"):
        if owner := owner_of(lock):
            with suppress(ClusterError):  # not the name of a cluster
                yield paths_of(owner.name, Path(owner.root), locks)


def _stored(locks: Path, states: Iterable[Path]) -> Iterator[Paths]:
    """Clusters that have state; a restart of the machine may have removed their locks."""
    for state in states:
        with suppress(ClusterError):
            if is_own(state.parent):
                yield paths_of(state.name, state.parent, locks)


def _runs(where: Paths) -> bool:
    return where.record.exists() and clusters.runs(where.name, root=where.root)
