"""Shows progress when something takes longer than a second; only on a terminal."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

_PATIENCE: Final = 1.0
_EVERY: Final = 0.2
_MARKS: Final = "|/-\\"


@contextmanager
def patiently(what: str, to: TextIO | None = None, *, is_shared: bool = False) -> Iterator[None]:
    """After a second, show what is waited for on the terminal's error stream; erase it afterwards.

    Args:
        what: is waited for.
        to: the stream.
        is_shared: another program may ask a question on the same terminal meanwhile. Then the text is printed
            once, on a line of its own that stays: erasing a moving line would erase the question.
    """
    stream = to or sys.stderr
    if not stream.isatty():
        yield
        return
    done = threading.Event()
    report = _report_once if is_shared else _report
    reporter = threading.Thread(target=report, args=(what, stream, done), daemon=True)
    reporter.start()
    try:
        yield
    finally:
        done.set()
        reporter.join()


def _report(what: str, stream: TextIO, done: threading.Event) -> None:
    if done.wait(_PATIENCE):
        return
    turn = 0
    while True:
        stream.write(f"\r{what} {_MARKS[turn % len(_MARKS)]}")
        stream.flush()
        turn += 1
        if done.wait(_EVERY):
            stream.write("\r" + " " * (len(what) + 2) + "\r")
            stream.flush()
            return


def _report_once(what: str, stream: TextIO, done: threading.Event) -> None:
    if not done.wait(_PATIENCE):
        stream.write(f"\n{what}\n")
        stream.flush()
