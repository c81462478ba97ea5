import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cluster.fake.clock import FakeClock
from cluster.process.clock import SystemClock
from cluster.process.lifecycle import Process

ROOT = Path(__file__).parents[3]


def waits(stop: threading.Event) -> None:
    stop.wait()


@pytest.fixture
def process() -> Process:
    return Process("tester", FakeClock(), grace=5)


def crashes(_stop: threading.Event) -> None:
    raise RuntimeError("out of paper")


class TestEnding:
    def test_an_orderly_end_has_exit_status_zero(self, process: Process) -> None:
        process.thread("worker", waits)
        process.end("the work is done")
        assert process.run() == 0

    def test_a_crashed_thread_ends_the_process_with_one_line_that_has_the_exception(
        self, process: Process
    ) -> None:
        process.thread("worker", waits)
        process.thread("printer", crashes)
        with capture_logs() as lines:
            assert process.run() == 1
        assert len(lines) == 1
        assert lines[0]["reason"] == "the thread 'printer' crashed"
        assert str(lines[0]["exc_info"]) == "out of paper"

    def test_a_thread_that_returns_ends_the_process(self, process: Process) -> None:
        process.thread("short", lambda _stop: None)
        assert process.run() == 1

    def test_a_thread_that_crashes_during_the_end_is_not_overlooked(self, process: Process) -> None:
        def late(stop: threading.Event) -> None:
            stop.wait()
            raise RuntimeError("too late")

        process.thread("late", late)
        process.end("the work is done")
        assert process.run() == 1


class TestClosing:
    def test_closers_run_in_reverse_order_after_the_stop_is_set(self, process: Process) -> None:
        closed: list[tuple[str, bool]] = []
        process.closing("first", lambda: closed.append(("first", process.stop.is_set())))
        process.closing("second", lambda: closed.append(("second", process.stop.is_set())))
        process.end("the work is done")
        process.run()
        assert closed == [("second", True), ("first", True)]

    def test_a_closer_that_fails_does_not_keep_the_others_from_closing(self, process: Process) -> None:
        closed: list[str] = []

        def fails() -> None:
            raise OSError("already closed")

        process.closing("first", lambda: closed.append("first"))
        process.closing("second", fails)
        process.end("the work is done")
        assert process.run() == 0
        assert closed == ["first"]

    def test_threads_that_do_not_end_within_the_grace_period_are_named_and_left_behind(self) -> None:
        process = Process("tester", SystemClock(), grace=0.05)
        forever = threading.Event()
        process.thread("hanging", lambda _stop: waits(forever))
        process.closing("slow", lambda: waits(forever))
        process.end("the work is done")
        with capture_logs() as lines:
            assert process.run() == 1
        assert lines[-1]["threads"] == ["closing", "hanging"]
        forever.set()


PROGRAM = """
import sys, threading
from cluster.process.clock import SystemClock
from cluster.process.lifecycle import Process

process = Process("tester", SystemClock())

def works(stop):
    print("working", flush=True)
    stop.wait()

process.thread("worker", works)
process.closing("door", lambda: print("door closed", flush=True))
sys.exit(process.run())
"""


@pytest.fixture
def program() -> Iterator[subprocess.Popen[str]]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=environ
    ) as child:
        yield child
        child.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_in_good_order(
    program: subprocess.Popen[str], number: signal.Signals
) -> None:
    assert program.stdout is not None
    assert program.stdout.readline() == "working\n"
    program.send_signal(number)
    assert program.wait(20) == 0
    rest = program.stdout.read()
    assert f"received {number.name}" in rest
    assert "door closed" in rest


CRASHING = """
import sys
from cluster.process import logs
from cluster.process.clock import SystemClock
from cluster.process.lifecycle import Process

logs.configure()
process = Process("tester", SystemClock())

def crashes(stop):
    raise RuntimeError("out of paper")

process.thread("printer", crashes)
sys.exit(process.run())
"""


def test_a_crash_is_logged_as_one_line_of_json() -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CRASHING]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False, timeout=60)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    logged = json.loads(line)
    assert (logged["level"], logged["reason"]) == ("error", "the thread 'printer' crashed")
    assert "RuntimeError: out of paper" in logged["exception"]
