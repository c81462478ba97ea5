"""A tracer reports in which function, and under which callers, a thread has spent its time."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from devcluster.paths import CHECKOUT
from tests.bench.tracing import Stack, Tracer, read, write


class Processor:
    """Time passes only while one of its functions spends some."""

    def __init__(self) -> None:
        self.spent = 0

    def inner(self) -> None:
        self.spent += 5

    def outer(self) -> None:
        self.spent += 3
        for _ in range(2):
            self.inner()
        self.spent += 4

    def failing(self) -> None:
        self.spent += 2
        raise LookupError

    def caught(self) -> None:
        try:
            self.failing()
        except LookupError:
            self.spent += 1


def run_followed(tracer: Tracer, work: Callable[[], None]) -> None:
    """A thread that works, from its start to its end."""
    thread = threading.Thread(target=lambda: sys.setprofile(tracer.walk()) or work(), name="works-7")
    thread.start()
    thread.join()


def followed(processor: Processor, work: Callable[[], None], *, cost: int = 0) -> dict[Stack, int]:
    """What a tracer reports of a thread that works."""
    tracer = Tracer(lambda: processor.spent, cost)
    run_followed(tracer, work)
    return {
        (stack[0], *(name.rpartition(".")[2] for name in stack[1:])): spent
        for stack, spent in tracer.stacks.items()
    }


def test_time_counts_for_the_function_that_runs_under_its_callers() -> None:
    processor = Processor()
    assert followed(processor, processor.outer) == {
        ("works", "outer"): 7,
        ("works", "outer", "inner"): 10,
    }


def test_a_function_that_raises_has_ended() -> None:
    processor = Processor()
    assert followed(processor, processor.caught) == {
        ("works", "caught"): 1,
        ("works", "caught", "failing"): 2,
    }


def test_the_cost_of_tracing_is_subtracted() -> None:
    processor = Processor()
    assert followed(processor, processor.outer, cost=2) == {
        ("works", "outer"): 1 + 2,
        ("works", "outer", "inner"): 3 + 3,
    }


def test_calls_before_tracing_began_do_not_count() -> None:
    processor = Processor()
    tracer = Tracer(lambda: processor.spent)
    run_followed(tracer, processor.inner)
    tracer.begin()
    run_followed(tracer, processor.outer)
    assert sum(tracer.stacks.values()) == 17


def test_stacks_are_read_as_they_were_written(tmp_path: Path) -> None:
    stacks = {("main", "a.b"): 7, ("main", "a.b", "c.<lambda>"): 9}
    write(stacks, tmp_path / "stacks")
    assert (tmp_path / "stacks").read_text() == "main;a.b 7\nmain;a.b;c.<lambda> 9\n"
    assert read(tmp_path / "stacks") == stacks


def test_a_module_runs_as_the_program_and_leaves_the_stacks_of_its_threads_behind(tmp_path: Path) -> None:
    path = tmp_path / "stacks"
    (tmp_path / "busy.py").write_text(
        "import os, signal, threading\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
        "def burning():\n    sum(range(10**6))\n"
        "thread = threading.Thread(target=burning, name='works-1')\n"
        "thread.start()\nthread.join()\nprint(__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.tracing", str(path), "busy"],
        cwd=CHECKOUT,
        env={"PYTHONPATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "__main__\n"
    found = read(path)
    most = max(found, key=lambda stack: found[stack])
    assert (most[0], *most[-2:]) == ("works", "__main__.burning", "builtins.sum")
