"""The newest states, so that a decision is judged by what its maker could see.

A part that decides reads first and writes then; in between, somebody else may write. A decision is innocent
if it was right in any state of the leeway before its write. After an outage a write may land that was decided
before it: then the leeway reaches back to the fault before.
"""

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from tests.laws.state import State

LONGEST: Final = timedelta(seconds=180)
MOST: Final = 4000
MOST_FAULTS: Final = 64
"""More than come while a busy machine is behind with judging."""


class Window:
    """States, each from its instant to that of the next."""

    def __init__(self, leeway: timedelta) -> None:
        self._leeway = leeway
        self._states: deque[tuple[datetime, State]] = deque(maxlen=MOST)
        self._faults: deque[datetime] = deque(maxlen=MOST_FAULTS)

    @property
    def newest(self) -> State:
        """As it is now."""
        return self._states[-1][1] if self._states else State()

    @property
    def last_fault(self) -> datetime | None:
        """When a fault began or ended last."""
        return self._faults[-1] if self._faults else None

    def put(self, state: State, instant: datetime) -> None:
        """The state from this instant on."""
        if not self._leeway:
            self._states.clear()
        while self._states and instant - self._states[0][0] > LONGEST and len(self._states) > 1:
            self._states.popleft()
        self._states.append((instant, state))

    def fault(self, instant: datetime) -> None:
        """A fault begins or ends."""
        self._faults.append(instant)

    def moments(self, now: datetime, read_at: datetime | None = None) -> Iterator[tuple[State, datetime]]:
        """The states of the leeway with instants at which they were current.

        Args:
            now: the instant of the write.
            read_at: when the maker says to have read; from the newest on the others come by how near they
                are to that. A true word makes it cheap to find the state that acquits, a lie changes nothing.
        """
        if read_at is None:
            yield from self._moments(now)
            return
        moments = self._moments(now)
        yield next(moments)
        yield from sorted(moments, key=lambda moment: abs(moment[1] - read_at))

    def _moments(self, now: datetime) -> Iterator[tuple[State, datetime]]:
        """The newest first."""
        yield self.newest, now
        if not self._leeway:
            return
        begin, until = self.begin(now), now
        for since, state in reversed(self._states):
            yield state, until
            yield state, max(since, begin)
            if since <= begin:
                return
            until = since

    def begin(self, now: datetime) -> datetime:
        """Where the leeway of a write begins. What has befallen the cluster after it does not count yet."""
        begin = now - self._leeway
        faults = [fault for fault in self._faults if fault <= now]
        if not faults or faults[-1] < begin:
            return begin
        return max((fault for fault in faults if fault < begin), default=faults[0]) - self._leeway
