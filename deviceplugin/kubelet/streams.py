"""The kubelet's ListAndWatch streams: the sign that it counts on us."""

import threading


class Streams:
    """The ListAndWatch streams of one registration: the sign that the kubelet counts on us."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._ever = False
        self._closing = False
        self._wakes: set[threading.Event] = set()
        self._listed: set[threading.Event] = set()

    @property
    def is_listed(self) -> bool:
        """Whether the kubelet listens and has been sent the devices."""
        return bool(self._listed)

    @property
    def is_open(self) -> bool:
        """Whether the kubelet listens."""
        return self._open > 0

    @property
    def has_ended(self) -> bool:
        """Whether the kubelet has listened and does not any more."""
        return self._ever and self._open == 0

    @property
    def is_closing(self) -> bool:
        """Whether every stream should end."""
        return self._closing

    def opened(self, wake: threading.Event) -> None:
        """A stream has opened; the event is set when it should look at this object again."""
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
        """A stream has ended, whoever ended it. A second word about the same stream changes nothing."""
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
