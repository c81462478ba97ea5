"""Control groups of a cluster on folders that look like those of version 1 and version 2."""

import shutil
from pathlib import Path

import pytest

from devcluster.cgroups import CgroupTree, _folders
from devcluster.errors import ClusterError

MARK = "gpu-booking.trial"


def hybrid(root: Path) -> CgroupTree:
    """A host with one tree per controller, and an empty unified one as well."""
    for name in ("pids", "memory", "cpuset", "unified"):
        (root / name).mkdir()
        (root / name / "cgroup.procs").write_text("1\n")
    (root / "cpuset" / "cpuset.cpus").write_text("0-1\n")
    (root / "cpuset" / "cpuset.mems").write_text("0\n")
    return CgroupTree(root)


class Unified(CgroupTree):
    """A host with one tree. Its groups have their files from the beginning, as the kernel's have."""

    def __init__(self, root: Path, controllers: str) -> None:
        super().__init__(root)
        for group in (root, root / f"{MARK}.node-a"):
            group.mkdir(exist_ok=True)
            (group / "cgroup.procs").write_text("")
            (group / "cgroup.controllers").write_text(controllers)


def test_a_hybrid_host_is_version_1_and_every_tree_gets_a_group_for_a_node(tmp_path: Path) -> None:
    tree = hybrid(tmp_path)

    assert tree.version == 1
    assert tree.make_for_node(MARK, "node-a") == f"/{MARK}.node-a"

    for name in ("pids", "memory", "cpuset", "unified"):
        assert (tmp_path / name / f"{MARK}.node-a").is_dir()


def test_version_1_groups_get_the_processors_and_memory_nodes_of_their_parent(tmp_path: Path) -> None:
    hybrid(tmp_path).make_for_node(MARK, "node-a")

    assert (tmp_path / "cpuset" / f"{MARK}.node-a" / "cpuset.cpus").read_text() == "0-1\n"
    assert (tmp_path / "cpuset" / f"{MARK}.node-a" / "cpuset.mems").read_text() == "0\n"


def test_daemons_are_found_by_one_group_of_the_pids_controller_on_version_1(tmp_path: Path) -> None:
    assert hybrid(tmp_path).make_for_processes(MARK) == tmp_path / "pids" / MARK / "cgroup.procs"


def test_a_unified_host_is_version_2_and_delegates_its_controllers(tmp_path: Path) -> None:
    tree = Unified(tmp_path, "cpuset cpu memory pids")

    assert tree.version == 2
    assert tree.make_for_processes(MARK) == tmp_path / MARK / "cgroup.procs"
    assert tree.make_for_node(MARK, "node-a") == f"/{MARK}.node-a"
    # The kernel takes one controller per write; what is left in a plain file is the last one.
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+pids"
    assert (tmp_path / f"{MARK}.node-a" / "cgroup.subtree_control").read_text() == "+pids"


def test_a_unified_host_that_delegates_nothing_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="gets no controllers cpu, memory: "):
        Unified(tmp_path, "cpuset pids").make_for_node(MARK, "node-a")


def test_a_host_without_control_groups_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="No control groups are mounted"):
        CgroupTree(tmp_path).make_for_processes(MARK)


def test_processes_of_daemons_and_pods_are_found_and_those_of_other_clusters_are_not(tmp_path: Path) -> None:
    tree = hybrid(tmp_path)
    for path, pids in {
        # A process of another PID namespace is reported as 0, which to kill(2) means the caller itself.
        f"pids/{MARK}": "10\n0\n11\n",
        f"pids/{MARK}.node-a/kubepods/pod1/c1": "12\n",
        f"memory/{MARK}.node-b/kubepods": "13\n",
        f"pids/{MARK}-2": "20\n",
        f"pids/{MARK}@0a1b2c3d": "21\n",
        f"pids/{MARK}-2.node-a": "22\n",
    }.items():
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "cgroup.procs").write_text(pids)

    assert tree.processes(MARK) == {10, 11, 12, 13}
    assert tree.node_processes(MARK, "node-a") == {12}
    assert tree.node_processes(MARK, "node-b") == {13}


def test_empty_groups_are_removed_from_the_bottom_and_those_in_use_are_named(tmp_path: Path) -> None:
    tree = hybrid(tmp_path)
    (tmp_path / "pids" / f"{MARK}.node-a" / "kubepods" / "pod1").mkdir(parents=True)
    (tmp_path / "memory" / MARK).mkdir()
    busy = tmp_path / "unified" / f"{MARK}.node-b"
    (busy / "a-file-that-keeps-it").mkdir(parents=True)
    (busy / "a-file-that-keeps-it" / "x").write_text("")

    assert tree.remove(MARK) == [busy]

    assert not (tmp_path / "pids" / f"{MARK}.node-a").exists()
    assert not (tmp_path / "memory" / MARK).exists()
    assert (tmp_path / "pids").exists()


def test_a_group_that_vanishes_while_it_is_searched_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "kubepods" / "pod" / "container").mkdir(parents=True)
    folders = _folders(tmp_path)

    assert [next(folders), next(folders)] == [tmp_path, tmp_path / "kubepods"]
    shutil.rmtree(tmp_path / "kubepods")

    assert list(folders) == []
