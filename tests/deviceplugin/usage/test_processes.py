"""What is read of a process below ``/proc``."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deviceplugin.usage.processes import Processes

UID = "0a1b2c3d-1111-2222-3333-444455556666"


def a_process(proc: Path, pid: int, *, name: str = "python3", started: int = 77) -> Path:
    """A process of a pod in a folder like ``/proc``."""
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    before = " ".join(["S", *map(str, range(4, 22))])
    (folder / "stat").write_text(f"{pid} ({name}) {before} {started} 1 2 3\n")
    (folder / "cgroup").write_text(f"0::/kubepods/pod{UID}/c\n")
    return folder


def test_a_process_is_seen_with_name_start_and_pod(tmp_path: Path) -> None:
    a_process(tmp_path, 7)
    seen = Processes(tmp_path).see(7)
    assert seen is not None
    assert (seen.pid, seen.command, seen.started, seen.owner.uid) == (7, "python3", "77", UID)


@pytest.mark.parametrize(
    ("name", "shown"), [("a) b (c", "a) b (c"), ("bell\a", "bell?"), ("", ""), (") S 1 2", ") S 1 2")]
)
def test_a_name_may_hold_anything(tmp_path: Path, name: str, shown: str) -> None:
    a_process(tmp_path, 7, name=name)
    seen = Processes(tmp_path).see(7)
    assert seen is not None
    assert (seen.command, seen.started) == (shown, "77")


def test_a_process_that_has_ended_is_not_seen(tmp_path: Path) -> None:
    assert Processes(tmp_path).see(7) is None


def test_a_process_whose_number_another_one_takes_meanwhile_is_not_seen(tmp_path: Path) -> None:
    folder = a_process(tmp_path, 7, started=77)
    (folder / "cgroup").unlink()
    os.mkfifo(folder / "cgroup")

    def replaced() -> None:
        # Opening the pipe waits until the first half of the old process has been read.
        with (folder / "cgroup").open("w") as cgroup:
            text = (folder / "stat").read_text()
            (folder / "stat").write_text(text.replace(" 77 ", " 99 "))
            cgroup.write(f"0::/kubepods/pod{UID}/c\n")

    with ThreadPoolExecutor(1) as kernel:
        done = kernel.submit(replaced)
        assert Processes(tmp_path).see(7) is None
        done.result()


@pytest.mark.parametrize("broken", ["", "7 (x) S", "7 x S 1 2"])
def test_a_line_that_is_not_in_the_kernel_s_format_is_ignored(tmp_path: Path, broken: str) -> None:
    (a_process(tmp_path, 7) / "stat").write_text(broken)
    assert Processes(tmp_path).see(7) is None


def test_the_test_s_own_process_is_read_from_the_kernel() -> None:
    seen = Processes(Path("/proc")).see(os.getpid())
    assert seen is not None
    assert seen.command == Path("/proc/self/comm").read_text().strip()
    assert int(seen.started) > 0


@pytest.mark.parametrize(
    ("first", "are_the_nodes"),
    [
        (b"/sbin/init\0splash\0", True),
        (b"/usr/lib/systemd/systemd\0--system\0", True),
        (b"/opt/venv/bin/python\0-m\0deviceplugin\0", False),
        (b"/pause\0", False),
        (None, False),
    ],
)
def test_in_our_own_pid_namespace_the_first_process_is_ours(
    tmp_path: Path, first: bytes | None, *, are_the_nodes: bool
) -> None:
    (tmp_path / "1").mkdir()
    if first is not None:
        (tmp_path / "1" / "cmdline").write_bytes(first)
    assert Processes(tmp_path).are_the_nodes() is are_the_nodes
