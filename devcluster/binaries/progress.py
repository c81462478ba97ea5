"""How far a build is: values that the builder reports, and the line that a person reads.

The numbers are Go's own: `go list` says which packages must be compiled and which lie in its cache already,
`go build -v` names each one that it compiles.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TextIO

from cluster.process.clock import Clock

PIPE_INTERVAL: Final = 20.0
"""Seconds between two lines for a reader that is not a terminal."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of the work and how far it is."""

    subject: str
    """What is being built, with its version."""
    doing: str
    """`fetching modules`, `compiling`, `linking`, ... or, when it is over, `done`."""
    done: int = 0
    known: int = 0
    """How many there are in all; 0 if that is not known."""
    at_most: bool = False
    """Whether `known` is only an upper bound."""
    cached: int = 0
    """How many need not be done, because Go's cache has them."""

    def __str__(self) -> str:
        """The text of the line, without the time."""
        amount = f" {self.done} of {'at most ' if self.at_most else ''}{self.known}" if self.known else ""
        skipped = f" ({self.cached} more from Go's cache)" if self.cached else ""
        return f"{self.subject}: {self.doing}{amount}{skipped}"


Report = Callable[[Progress], None]


def silent(_progress: Progress) -> None:
    """Discard a report."""


LISTING: Final = "{{.ImportPath}} {{.Stale}} {{.StaleReason}}"
"""The template for `go list -f` that Counter reads."""
UNSAFE: Final = "unsafe false "
"""The listing's line of the package that is built into the compiler."""
ONLY_TO_BE_LINKED: Final = "not installed but available in build cache"
"""Go's reason for calling a program stale whose package needs no compiling (cmd/go 1.26, work/buildid.go)."""


def _is_due(line: str) -> tuple[str, bool]:
    """The package of a line of the listing, and whether it must be compiled."""
    path, stale, reason = (*line.split(" ", 2), "", "")[:3]
    return path, stale == "true" and reason != ONLY_TO_BE_LINKED


class Counter:
    """Counts packages from the lines of `go list` and `go build -v`; a value in, a Progress out."""

    def __init__(self, subject: str, listing: str) -> None:
        """Read the listing: what `go list -deps -f LISTING` prints for every package of the build."""
        packages = [_is_due(line) for line in listing.splitlines() if line != UNSAFE]
        self._left = {path for path, due in packages if due}
        cached = len(packages) - len(self._left)
        self.progress = Progress(subject, "compiling", known=len(self._left), cached=cached)
        self._link_when_over()

    def line(self, text: str) -> bool:
        """Take one line of `go build -v`; whether it named a package that was still to be compiled."""
        if text not in self._left:
            return False
        self._left.remove(text)
        self.progress = replace(self.progress, done=self.progress.done + 1)
        self._link_when_over()
        return True

    def _link_when_over(self) -> None:
        if not self._left:
            self.progress = replace(self.progress, doing="linking", done=0, known=0, cached=0)


class ProgressLine:
    """Shows progress to a person: one updating line on a terminal, now and then a line elsewhere."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self._terminal = stream.isatty()
        self._began = clock.monotonic()
        self._shown_at = self._began
        self._last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        """Show it; without a terminal only if a new step began or `PIPE_INTERVAL` is over."""
        now = self._clock.monotonic()
        last, self._last = self._last, progress
        if last is None or progress.subject != last.subject:
            self._began = now
        fresh = last is None or (progress.subject, progress.doing) != (last.subject, last.doing)
        if not self._terminal and not fresh and now - self._shown_at < PIPE_INTERVAL:
            return
        self._shown_at = now
        minutes, seconds = divmod(int(now - self._began), 60)
        text = f"{progress} [{minutes}:{seconds:02}]"
        if not self._terminal:
            self._stream.write(f"{text}\n")
        else:
            unfinished = last is not None and last.doing != "done" and last.subject != progress.subject
            begin = "\n" if unfinished else "\r"
            end = "\n" if progress.doing == "done" else ""
            self._stream.write(f"{begin}{text}\x1b[K{end}")
        self._stream.flush()
