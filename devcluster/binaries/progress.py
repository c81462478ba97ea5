"""How far a build is: values that the builder reports, and the line that a person reads.

The numbers are Go's own: `go list` says which packages must be compiled and which lie in its cache already,
`go build -v` names each one that it compiles.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TextIO

from cluster.process.clock import Clock

PIPE_INTERVAL: Final = 20.0
"""Seconds between two lines for a reader that is not a terminal."""
_TRUST: Final = 60.0
"""Seconds of work after which this machine's own pace counts as much as the pace of the estimates."""
_COMPILED: Final = 0.9
"""The part of a tool's time after which only linking is left."""
_ROUND: Final = 10
"""Estimates are told in tens of seconds."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Where one tool stands among all that are made in a run. Seconds are those of a quiet machine."""

    number: int
    """Its place among them, from 1."""
    tools: int
    before: float
    """Seconds of the tools that are made before it."""
    own: float
    after: float
    """Seconds of the tools that are made after it."""

    def total(self, elapsed: float, fraction: float) -> float:
        """How many seconds all will have taken, after `elapsed` seconds and at this fraction of the tool."""
        due = self.before + self.own * fraction
        left = self.own * (1.0 - fraction) + self.after
        return elapsed + left * (elapsed + _TRUST) / (due + _TRUST)


def places(seconds: Sequence[float]) -> Iterator[Whole]:
    """The place of each tool in a run that makes these, by the seconds that each takes."""
    for index, own in enumerate(seconds):
        yield Whole(index + 1, len(seconds), sum(seconds[:index]), own, sum(seconds[index + 1 :]))


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
    whole: Whole | None = None
    """Its place in a run that makes several."""

    @property
    def fraction(self) -> float:
        """How much of the subject is over, 0 to 1, as far as Go says it."""
        if self.doing == "compiling" and self.known:
            return _COMPILED * (self.done + self.cached) / (self.known + self.cached)
        return {"linking": _COMPILED, "done": 1.0}.get(self.doing, 0.0)

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
        goes_on = last is not None and last.whole is not None and progress.whole is not None
        if last is None or (progress.subject != last.subject and not goes_on):
            self._began = now
        fresh = last is None or _step(progress) != _step(last)
        if not self._terminal and not fresh and now - self._shown_at < PIPE_INTERVAL:
            return
        self._shown_at = now
        text = _text(progress, now - self._began)
        if not self._terminal:
            self._stream.write(f"{text}\n")
        else:
            changed = last is not None and last.doing != "done" and last.subject != progress.subject
            begin = "\n" if changed and not goes_on else "\r"
            over = progress.whole is None or progress.whole.number == progress.whole.tools
            end = "\n" if over and progress.doing == "done" else ""
            self._stream.write(f"{begin}{text}\x1b[K{end}")
        self._stream.flush()


def _step(progress: Progress) -> tuple[str, str]:
    """What a reader without a terminal is told of at once: in a run of several, each tool and its end."""
    doing = progress.doing if progress.whole is None or progress.doing == "done" else ""
    return progress.subject, doing


def _text(progress: Progress, elapsed: float) -> str:
    """The whole line: the subject's own time or, in a run that makes several, the time of all."""
    place = progress.whole
    if place is None:
        return f"{progress} [{_minutes(elapsed)}]"
    about = round(place.total(elapsed, progress.fraction) / _ROUND) * _ROUND
    return (
        f"{place.number} of {place.tools} tools, {_minutes(elapsed)} of about"
        f" {_minutes(max(about, elapsed))}: {progress}"
    )


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
