"""No caller waits for a reader of the log."""

import threading

import pytest
from structlog.testing import capture_logs

from cluster.fake.clock import eventually
from deviceplugin.process.log_writer import AsyncLogStream


class Pipe:
    """A stream that is not read until the test does; broken, if the test wants it."""

    def __init__(self) -> None:
        self.emptied = threading.Event()
        self.is_broken = False
        self.text = ""

    def write(self, text: str, /) -> int:
        self.emptied.wait()
        if self.is_broken:
            raise BrokenPipeError
        self.text += text
        return len(text)

    def flush(self) -> None:
        """All is written already."""


def test_lines_are_written_in_order_and_the_last_ones_at_the_end() -> None:
    pipe = Pipe()
    pipe.emptied.set()
    with AsyncLogStream(pipe) as lines:
        for number in range(1000):
            lines.write(f"{number}\n")
        lines.flush()
    assert pipe.text == "".join(f"{number}\n" for number in range(1000))


def test_a_full_pipe_blocks_no_caller_and_the_number_of_lost_lines_is_logged() -> None:
    pipe = Pipe()
    with capture_logs() as logs, AsyncLogStream(pipe, longest=3) as lines:
        for number in range(10):
            lines.write(f"{number}\n")
        pipe.emptied.set()
        eventually(lambda: logs, deadline=60)
    kept = [int(line) for line in pipe.text.split()]
    assert kept == sorted(kept)
    assert len(kept) <= 4
    assert [line["lines"] for line in logs] == [10 - len(kept)]


def test_a_pipe_that_is_full_at_the_end_does_not_keep_the_process_alive() -> None:
    pipe = Pipe()
    with AsyncLogStream(pipe, longest=1, patience=0.05) as lines:
        for _ in range(5):
            lines.write("line\n")
    assert pipe.text == ""
    pipe.emptied.set()


def test_every_line_can_be_read_as_soon_as_it_is_written() -> None:
    class Buffered(Pipe):
        def __init__(self) -> None:
            super().__init__()
            self.readable = ""

        def flush(self) -> None:
            self.readable = self.text

    pipe = Buffered()
    pipe.emptied.set()
    with AsyncLogStream(pipe) as lines:
        assert lines.write("first\n") == len("first\n")
        eventually(lambda: pipe.readable == "first\n", deadline=60)


@pytest.mark.parametrize("error", [BrokenPipeError, ValueError], ids=["broken", "closed"])
def test_lines_are_written_again_once_the_pipe_works_again(error: type[Exception]) -> None:
    class Failing(Pipe):
        fails = True

        def write(self, text: str, /) -> int:
            if self.fails:
                self.fails = False
                raise error
            return super().write(text)

    pipe = Failing()
    pipe.emptied.set()
    with AsyncLogStream(pipe) as lines:
        lines.write("lost\n")
        lines.write("written\n")
    assert pipe.text == "written\n"


def test_lost_lines_are_counted_once() -> None:
    pipe = Pipe()
    with capture_logs() as logs, AsyncLogStream(pipe, longest=1) as lines:
        for number in range(4):
            lines.write(f"{number}\n")
        pipe.emptied.set()
        eventually(lambda: logs, deadline=60)
        lines.write("after\n")
    assert pipe.text.endswith("after\n")
    assert len(logs) == 1


def test_a_pipe_that_breaks_does_no_harm() -> None:
    pipe = Pipe()
    pipe.is_broken = True
    pipe.emptied.set()
    with AsyncLogStream(pipe) as lines:
        lines.write("lost\n")
    assert pipe.text == ""
