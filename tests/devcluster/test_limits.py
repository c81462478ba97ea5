"""What a start does about the machine's limits, before any of its processes run."""

from pathlib import Path

import pytest

from devcluster.addresses import SLOTS, Addresses
from devcluster.errors import ClusterError
from devcluster.limits import (
    ADDRESSES,
    ALL_THREADS,
    FILES,
    GROUPS,
    INSTANCES,
    KEYS,
    PROCESSES,
    THREADS,
    WATCHES,
    Limit,
    State,
    make_room,
    survey,
)

SMALL = 128


def raised(states: list[State], *, allowed: bool = True) -> list[str]:
    """What a start reports, if it may raise limits or not."""
    reports: list[str] = []
    before = {state.limit: state.value for state in states}

    def write(limit: Limit) -> int:
        return limit.raised if allowed else before[limit]

    make_room(states, write, reports.append)
    return reports


def test_a_limit_without_room_for_eight_clusters_is_raised_and_reported_once() -> None:
    reports = raised([State(INSTANCES, SMALL, 0), State(KEYS, 1_000_000, 3)])
    assert reports == ["raised fs.inotify.max_user_instances from 128 to 8192 on this machine"]


@pytest.mark.parametrize("state", [State(INSTANCES, 8192, 110), State(INSTANCES, 10_000, 9900)])
def test_a_limit_with_room_or_beyond_what_it_is_raised_to_is_left_alone(state: State) -> None:
    assert not raised([state])


def test_a_limit_that_may_not_be_raised_does_not_matter_while_there_is_room_for_a_cluster() -> None:
    assert not raised([State(INSTANCES, SMALL, SMALL - INSTANCES.cluster)], allowed=False)


def test_a_start_is_refused_with_a_message_where_a_limit_has_no_room_and_cannot_be_raised() -> None:
    with pytest.raises(ClusterError) as refused:
        raised([State(INSTANCES, SMALL, 110)], allowed=False)
    assert str(refused.value) == (
        "There is no room for a cluster: of fs.inotify.max_user_instances = 128 there are 110 in use,"
        " and a cluster takes 22. Raise it as root: `sysctl -w fs.inotify.max_user_instances=8192`."
        " `.venv/bin/python -m devcluster status` lists the clusters that run here."
    )


def test_a_limit_that_cannot_be_raised_is_refused_without_a_command() -> None:
    with pytest.raises(ClusterError, match="of memory control groups = 65535") as refused:
        raised([State(GROUPS, 65_535, 65_500)])
    assert "sysctl" not in str(refused.value)


def test_the_survey_counts_what_this_users_processes_have_in_use(tmp_path: Path) -> None:
    values = {INSTANCES: 128, WATCHES: 8192, THREADS: 32_768, ALL_THREADS: 90, KEYS: 200, FILES: 9000}
    for limit, value in values.items():
        file = tmp_path.joinpath("sys", *limit.name.split("."))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    (tmp_path / "sys/fs/file-nr").write_text("822\t0\t2466170\n")
    (tmp_path / "loadavg").write_text("0.24 0.10 0.03 1/79 2157\n")
    (tmp_path / "key-users").write_text(
        "    0:    12 11/11 7/1000000 140/25000000\n 1000: 1 1/1 1/200 9/20000\n"
    )
    (tmp_path / "cgroups").write_text("#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t4\t29\t1\n")
    (tmp_path / "net").mkdir()
    links = ("lo", "eth0", Addresses(0).interface, Addresses(31).interface)
    (tmp_path / "net/dev").write_text(
        "Inter-|   Receive\n face |bytes\n" + "".join(f"{link:>6}: 1\n" for link in links)
    )
    for process, watches in ((7, 2), (8, 1)):
        (tmp_path / str(process) / "fd").mkdir(parents=True)
        (tmp_path / str(process) / "fdinfo").mkdir()
        (tmp_path / str(process) / "fd/5").symlink_to("anon_inode:inotify")
        (tmp_path / str(process) / "fd/6").symlink_to("/dev/null")
        (tmp_path / str(process) / "fdinfo/5").write_text("pos:\t0\n" + "inotify wd:1 ino:2\n" * watches)
    found = {state.limit: (state.value, state.used) for state in survey(tmp_path, ())}
    assert found == {
        INSTANCES: (128, 2),
        WATCHES: (8192, 3),
        THREADS: (32_768, 79),
        ALL_THREADS: (90, 79),
        KEYS: (200, 7),
        FILES: (9000, 822),
        GROUPS: (65_535, 29),
        ADDRESSES: (SLOTS, 2),
    }


def test_a_limit_that_this_kernel_does_not_have_is_left_out(tmp_path: Path) -> None:
    assert survey(tmp_path, (tmp_path,)) == ()


@pytest.mark.parametrize(("limit", "found"), [("500\n", [State(PROCESSES, 500, 41)]), ("max\n", [])])
def test_the_threads_of_a_container_are_counted_where_they_are_limited(
    limit: str, found: list[State], tmp_path: Path
) -> None:
    (tmp_path / "pids.max").write_text(limit)
    (tmp_path / "pids.current").write_text("41\n")
    assert [state for state in survey(tmp_path, (tmp_path,)) if state.limit is PROCESSES] == found
