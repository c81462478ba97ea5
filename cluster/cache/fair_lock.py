"""A lock that no thread gets twice in a row while others wait.

Python's own lock goes to the thread that asks first after its release, which is usually the one that has just
released it: a thread that does much work in small portions would keep all others out until its end.
"""

import threading
from types import TracebackType
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class FairLock:
    """A reentrant lock: a thread that acquires it again queues behind all that have waited meanwhile."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        """Held by the thread that is next."""
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._depth = 0

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


class Guarded(Generic[T]):
    """What a lock guards, as a context in which the lock is held; it may be entered again.

    It is entered some forty times for each pod, so it is no generator, which takes several times as long.
    """

    __slots__ = ("_lock", "_value")

    def __init__(self, lock: FairLock, value: T) -> None:
        self._lock: Final = lock
        self._value: Final = value

    def __enter__(self) -> T:
        self._lock.__enter__()
        return self._value

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.__exit__(kind, error, trace)
