"""A sign of life while something takes longer than a second; only where somebody looks at a terminal."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

_PATIENCE: Final = 1.0
_EVERY: Final = 0.2
_MARKS: Final = "|/-\\"


@contextmanager
def patiently(what: str, to: TextIO | None = None) -> Iterator[None]:
    """Say what is waited for, after a second, on the terminal's error stream; it is gone afterwards."""
    stream = to or sys.stderr
    if not stream.isatty():
        yield
        return
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(what, stream, done), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(what: str, stream: TextIO, done: threading.Event) -> None:
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
