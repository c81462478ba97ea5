"""The kubelet's ListAndWatch streams: an open one shows that it uses our registration."""

import threading


class Streams:
    """The ListAndWatch streams of one registration."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._ever = False
        self._closing = False
        self._wakes: set[threading.Event] = set()
        self._listed: set[threading.Event] = set()

    @property
    def is_listed(self) -> bool:
        """Whether a stream is open and the devices have been sent on it."""
        return bool(self._listed)

    @property
    def is_open(self) -> bool:
        """Whether a stream is open."""
        return self._open > 0

    @property
    def has_ended(self) -> bool:
        """Whether there was a stream, and none is open any more."""
        return self._ever and self._open == 0

    @property
    def is_closing(self) -> bool:
        """Whether every stream should end."""
        return self._closing

    def opened(self, wake: threading.Event) -> None:
        """A stream has opened; the event is set when it should read this object's state again."""
        with self._lock:
            self._open += 1
            self._ever = True
            self._wakes.add(wake)

    def listed(self, wake: threading.Event) -> None:
        """A stream has sent the devices; one that has ended meanwhile is not counted."""
        with self._lock:
            if wake in self._wakes:
                self._listed.add(wake)

    def ended(self, wake: threading.Event) -> None:
        """A stream has ended, from either side. A second call for the same stream changes nothing."""
        with self._lock:
            self._listed.discard(wake)
            if wake in self._wakes:
                self._wakes.discard(wake)
                self._open -= 1
        wake.set()

    def close(self) -> None:
        """Let every stream end."""
        with self._lock:
            self._closing = True
            for wake in self._wakes:
                wake.set()
