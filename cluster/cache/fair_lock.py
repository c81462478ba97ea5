"""A lock that nobody gets twice in a row while others wait.

Python's own goes to whoever asks first after it is free, and that is mostly who has just given it back: a
thread that does much work in small portions would keep all others out until its end.
"""

import threading
from types import TracebackType


class FairLock:
    """A reentrant lock whose holder, coming back for it, queues behind whoever has waited meanwhile."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        """Held by the one who is next."""
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._depth = 0

    def is_awaited(self) -> bool:
        """Whether somebody waits for it, or takes it at this moment."""
        return self._gate.locked()

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._owner != me:
            with self._gate:
                self._lock.acquire()
            self._owner = me
        self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._lock.release()
