"""Virtual time in one thread: what is due next is done next.

Everything that happens is a task of somebody's life. Who is paused does what is due when they go on; who is
dead does nothing any more. Where nothing but the usual rounds would happen for a while, ``leap`` lets time
jump: every round that was due meanwhile is done once, the signs of life first.
"""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.fake.clock import FakeClock

Action = Callable[[], object]


@dataclass(eq=False)
class Life:
    """One life of a part: a process between its start and its death."""

    alive: bool = True
    resumes: float = 0.0
    """Until then it is paused (SIGSTOP)."""


@dataclass(order=True)
class Task:
    """Something that is due."""

    due: float
    number: int
    action: Action = field(compare=False)
    life: Life = field(compare=False)
    period: float | None = field(compare=False, default=None)
    """Seconds to the next time; None for something that happens once."""
    is_sign_of_life: bool = field(compare=False, default=False)
    """Others would draw conclusions from its being late."""


class Loop:
    """Tasks in the order in which they are due."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._tasks: list[Task] = []
        self._numbers = itertools.count()

    @property
    def now(self) -> float:
        """Seconds since the world began."""
        return self._clock.monotonic()

    def after(self, seconds: float, action: Action, life: Life) -> None:
        """Do something once, so many seconds from now."""
        self._add(Task(self.now + seconds, next(self._numbers), action, life))

    def every(
        self, seconds: float, action: Action, life: Life, *, first: float = 0.0, is_sign_of_life: bool = False
    ) -> None:
        """Do something again and again, each time so many seconds after the last."""
        number = next(self._numbers)
        self._add(Task(self.now + first, number, action, life, seconds, is_sign_of_life))

    def step(self, until: float) -> bool:
        """Do the next thing; False when nothing is due until then, and it is then."""
        if not self._tasks or self._tasks[0].due > until:
            self._advance(until)
            return False
        task = heapq.heappop(self._tasks)
        self._advance(task.due)
        self._do(task)
        return True

    def next_single(self, *, later_than: float = 0.0) -> float:
        """When something is due that happens once."""
        singles = (t.due for t in self._tasks if t.period is None and t.life.alive)
        return min((due for due in singles if due > later_than), default=float("inf"))

    def leap(self, to: float) -> None:
        """It is then; who gives signs of life has just given one."""
        self._advance(to)
        due = sorted(task for task in self._tasks if task.is_sign_of_life and task.due <= to)
        for task in due:
            self._tasks.remove(task)
        heapq.heapify(self._tasks)
        for task in due:
            self._do(task)

    def _add(self, task: Task) -> None:
        heapq.heappush(self._tasks, task)

    def _advance(self, to: float) -> None:
        if to > self.now:
            self._clock.advance(to - self.now)

    def _do(self, task: Task) -> None:
        if not task.life.alive:
            return
        if task.life.resumes > self.now:
            task.due, task.number = task.life.resumes, next(self._numbers)
            self._add(task)
            return
        task.action()
        if task.period is not None and task.life.alive:
            task.due, task.number = self.now + task.period, next(self._numbers)
            self._add(task)
