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
def patiently(what: str, to: TextIO | None = None, *, is_shared: bool = False) -> Iterator[None]:
    """Say what is waited for, after a second, on the terminal's error stream; it is gone afterwards.

    Args:
        what: is waited for.
        to: the stream.
        is_shared: another program may ask somebody something on the same terminal meanwhile. Then it is said
            once, on a line of its own that stays: what moves and is wiped away would take the question along.
    """
    stream = to or sys.stderr
    if not stream.isatty():
        yield
        return
    done = threading.Event()
    tell = _tell_once if is_shared else _tell
    teller = threading.Thread(target=tell, args=(what, stream, done), daemon=True)
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


def _tell_once(what: str, stream: TextIO, done: threading.Event) -> None:
    if not done.wait(_PATIENCE):
        stream.write(f"\n{what}\n")
        stream.flush()
