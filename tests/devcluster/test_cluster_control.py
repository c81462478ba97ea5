"""PID 1 of a cluster, without a cluster: its request handling as an ordinary process."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from devcluster import init
from devcluster.control import TRIES, Control
from devcluster.errors import ClusterError
from devcluster.owner_pipe import OwnerPipe
from devcluster.wait import poll
from tests.patience import PATIENCE

# The same loop, without what only root in new namespaces may do.
_SCRIPT = "import runpy, sys; m = runpy.run_path(sys.argv[1]); m['serve'](sys.argv[2], int(sys.argv[3]))"


@dataclass(frozen=True)
class First:
    """A first process: its client, its owner's pipe, and the process itself."""

    control: Control
    owner: OwnerPipe
    process: subprocess.Popen[bytes]


@pytest.fixture
def first(tmp_path: Path) -> Iterator[First]:
    path = tmp_path / "control"
    with OwnerPipe() as owner:
        words = [sys.executable, "-I", "-S", "-c", _SCRIPT, init.__file__, str(path), str(owner.reading)]
        with subprocess.Popen(words, pass_fds=(owner.reading,)) as process:
            owner.hand_over()
            found = Control(path)
            assert poll(found.answers, seconds=PATIENCE)
            yield First(found, owner, process)
            if process.poll() is None:
                for name in found.processes():
                    found.signal(name, 9)
            process.kill()


@pytest.fixture
def control(first: First) -> Control:
    return first.control


def test_the_control_process_ends_when_its_owner_has_ended(first: First) -> None:
    first.owner.close()

    assert first.process.wait(30) == 0


def test_a_process_started_by_the_control_process_does_not_keep_it_alive(
    first: First, tmp_path: Path
) -> None:
    lifeline = tmp_path / "lifeline"
    os.mkfifo(lifeline)
    held = os.open(lifeline, os.O_RDWR)
    try:
        start(first.control, "one", f"exec < {lifeline}; echo reads; exec cat", tmp_path)
        # Before it has opened the pipe, it would wait for a writer that has gone.
        poll(lambda: "reads" in (tmp_path / "log").read_text(), seconds=PATIENCE, every=0.01)
        first.owner.close()

        assert first.process.wait(30) == 0
    finally:
        os.close(held)  # without a PID namespace the started process outlives the first one


def test_the_control_process_outlives_its_owner_on_request(first: First, tmp_path: Path) -> None:
    first.control.outlive()
    first.owner.close()

    start(first.control, "one", "exit 7", tmp_path)
    assert ended(first.control, "one") == 7


def start(
    control: Control, name: str, script: str, tmp_path: Path, *, restarted_always: bool = False
) -> None:
    control.start(
        name,
        ["/bin/sh", "-c", script],
        env={"SAY": "hello"},
        log=tmp_path / "log",
        node=None,
        restarted_always=restarted_always,
    )


def ended(control: Control, name: str) -> int | None:
    poll(lambda: control.processes()[name].exited is not None, seconds=PATIENCE, every=0.01)
    return control.processes()[name].exited


def test_a_process_gets_its_environment_a_log_and_an_exit_code(control: Control, tmp_path: Path) -> None:
    start(control, "one", "echo $SAY; echo there >&2; exit 7", tmp_path)

    assert ended(control, "one") == 7
    assert (tmp_path / "log").read_text() == "hello\nthere\n"


def test_a_signal_is_reported_as_a_negative_number(control: Control, tmp_path: Path) -> None:
    start(control, "one", "exec sleep 100", tmp_path)
    control.signal("one", 15)

    assert ended(control, "one") == -15


def test_a_signal_for_an_ended_process_has_no_effect(control: Control, tmp_path: Path) -> None:
    start(control, "one", "exit 0", tmp_path)
    assert ended(control, "one") == 0

    assert control.signal("one", 9).exited == 0


def test_an_ended_process_is_started_again_with_the_same_command_and_log(
    control: Control, tmp_path: Path
) -> None:
    start(control, "one", "echo again", tmp_path)
    ended(control, "one")
    control.start_again("one")

    assert ended(control, "one") == 0
    assert (tmp_path / "log").read_text() == "again\nagain\n"


def test_a_running_process_is_not_started_twice(control: Control, tmp_path: Path) -> None:
    start(control, "one", "exec sleep 100", tmp_path)

    with pytest.raises(ClusterError, match="could not start one: ValueError: one runs already"):
        start(control, "one", "exit 0", tmp_path)


def test_orphans_are_reaped(control: Control, tmp_path: Path) -> None:
    start(control, "one", "sleep 0.01 & exit 0", tmp_path)

    assert ended(control, "one") == 0
    assert control.answers()


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"not json\n", b"[]\n", b'{"do": "dance"}\n', b'{"do": "signal"}\n']
)
def test_an_invalid_request_harms_only_its_sender(control: Control, tmp_path: Path, line: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(tmp_path / "control"))
        connection.sendall(line)
    assert control.answers()
    start(control, "one", "exit 0", tmp_path)
    assert ended(control, "one") == 0


def test_a_cluster_that_does_not_run_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="The cluster does not run: nobody answers at"):
        Control(tmp_path / "none").processes()


class Stalled(Control):
    """A caller that is delayed, so many times, after it has connected, until the other side hangs up."""

    def __init__(self, path: Path, *, times: int) -> None:
        super().__init__(path)
        self._times = times

    def _connect(self) -> socket.socket:
        connection = super()._connect()
        if self._times:
            self._times -= 1
            assert connection.recv(1, socket.MSG_PEEK) == b""
        return connection


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        made.settimeout(30)
        made.bind(str(tmp_path / "control"))
        made.listen()
        yield made


def hang_up(listener: socket.socket, *, times: int) -> None:
    """Hang up on so many callers, as a first process does if it gets no request for a while."""
    for _ in range(times):
        listener.accept()[0].close()


def test_a_request_that_was_not_read_is_sent_again(tmp_path: Path, listener: socket.socket) -> None:
    def answer() -> None:
        hang_up(listener, times=1)
        connection, _ = listener.accept()
        with connection, connection.makefile("rw") as stream:
            stream.readline()
            stream.write('{"processes": {}, "nodes": {}}\n')

    with ThreadPoolExecutor() as pool:
        answering = pool.submit(answer)
        assert Stalled(tmp_path / "control", times=1).processes() == {}
        answering.result()


def test_a_call_that_is_never_answered_fails_with_a_message(tmp_path: Path, listener: socket.socket) -> None:
    with ThreadPoolExecutor() as pool:
        hanging = pool.submit(hang_up, listener, times=TRIES)
        with pytest.raises(ClusterError, match="The cluster's first process does not answer: "):
            Stalled(tmp_path / "control", times=TRIES).processes()
        hanging.result()


def test_a_process_with_a_restart_policy_that_ends_by_itself_is_restarted(
    control: Control, tmp_path: Path
) -> None:
    start(control, "one", "echo $SAY; exit 1", tmp_path, restarted_always=True)

    assert poll(lambda: (tmp_path / "log").read_text().count("hello") > 1, seconds=PATIENCE)
    assert control.processes()["one"].restarted > 0


def test_a_process_with_a_restart_policy_is_restarted_however_often_others_send_requests(
    control: Control, tmp_path: Path
) -> None:
    start(control, "one", "echo $SAY; exit 1", tmp_path, restarted_always=True)

    def again() -> bool:
        return bool(control.processes()) and (tmp_path / "log").read_text().count("hello") > 1

    assert poll(again, seconds=PATIENCE, every=0.001)


def test_a_process_with_a_restart_policy_that_was_killed_on_purpose_stays_dead(
    control: Control, tmp_path: Path
) -> None:
    start(control, "one", "echo $SAY; exec sleep 100", tmp_path, restarted_always=True)
    assert poll(lambda: "hello" in (tmp_path / "log").read_text(), seconds=PATIENCE)
    control.signal("one", 9)
    assert ended(control, "one") == -9

    start(control, "two", "echo $SAY; exit 1", tmp_path, restarted_always=True)
    assert poll(lambda: (tmp_path / "log").read_text().count("hello") > 2, seconds=PATIENCE)
    assert control.processes()["one"].exited == -9


def test_a_process_with_a_restart_policy_can_be_started_again_after_it_was_killed(
    control: Control, tmp_path: Path
) -> None:
    start(control, "one", "echo $SAY; exec sleep 100", tmp_path, restarted_always=True)
    control.signal("one", 9)
    assert ended(control, "one") == -9
    control.start_again("one")

    assert poll(lambda: control.processes()["one"].exited is None, seconds=PATIENCE)


def test_a_process_with_a_restart_policy_that_ends_by_itself_after_a_pause_is_restarted(
    control: Control, tmp_path: Path
) -> None:
    waits = f"echo $SAY; while ! test -e {tmp_path}/end; do sleep 0.05; done; exit 1"
    start(control, "one", waits, tmp_path, restarted_always=True)
    control.signal("one", signal.SIGSTOP)
    control.signal("one", signal.SIGCONT)
    (tmp_path / "end").touch()

    assert poll(lambda: control.processes()["one"].restarted > 0, seconds=PATIENCE)


def test_a_crashed_process_that_is_killed_before_its_restart_stays_dead(
    control: Control, tmp_path: Path
) -> None:
    start(control, "one", "echo $SAY; exit 1", tmp_path, restarted_always=True)
    assert ended(control, "one") == 1
    control.signal("one", 9)

    start(control, "two", "echo two; exit 1", tmp_path, restarted_always=True)
    assert poll(lambda: (tmp_path / "log").read_text().count("two") > 2, seconds=PATIENCE)
    assert control.processes()["one"].exited is not None
    again = control.processes()["one"].restarted
    assert poll(lambda: control.processes()["two"].restarted > 3, seconds=PATIENCE)
    assert control.processes()["one"].restarted == again


def test_restarts_of_a_process_are_counted(control: Control, tmp_path: Path) -> None:
    start(
        control,
        "one",
        f"test -e {tmp_path}/again && exec sleep 100; touch {tmp_path}/again",
        tmp_path,
        restarted_always=True,
    )
    assert poll(lambda: control.processes()["one"].restarted == 1, seconds=PATIENCE)

    control.reset_restarts()

    assert control.processes()["one"].restarted == 0
    assert control.processes()["one"].exited is None
