"""The resources that are registered with the kubelet: they come and go with the devices.

Each has a registration with a thread of its own. When a resource has no device left, the kubelet gets an
empty list before the registration ends; five minutes later it forgets the resource. Devices that a pod holds
are listed, so no pod holds a device of a resource that ends.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from cluster.process.clock import Clock
from cluster.process.stop_events import wake_at
from deviceplugin.device_cache import DeviceCache

log = structlog.get_logger(__name__)

CHECK_EVERY: Final = 1.0
"""Seconds between two checks of resources that are about to end."""
LINGER: Final = 5.0
"""Seconds for which a resource without devices is still served: the kubelet must have got its empty list."""


class RegistrationEndedError(Exception):
    """The thread of a registration has ended, and its resource with it."""


class Registration(Protocol):
    """The interface of ``registration.Registrar``."""

    @property
    def is_registered(self) -> bool:
        """Whether the kubelet has the devices, and its stream is open."""
        ...

    @property
    def problem(self) -> str | None:
        """Why it is not registered, for people; None if it is."""
        ...

    def run(self, stop: threading.Event) -> None:
        """Stay registered until the stop event is set."""
        ...


@dataclass
class _Served:
    registration: Registration
    stop: threading.Event
    thread: threading.Thread
    empty_since: float | None = None


class Registrations:
    """The thread that begins and ends registrations."""

    def __init__(
        self, device_cache: DeviceCache, registration: Callable[[str], Registration], clock: Clock
    ) -> None:
        """Args: registration: creates the registration of a resource."""
        self._device_cache = device_cache
        self._registration = registration
        self._clock = clock
        self._served: dict[str, _Served] = {}

    @property
    def is_registered(self) -> bool:
        """Whether the kubelet has the list of every resource that has devices, and its streams are open."""
        served, wanted = dict(self._served), self._device_cache.now.listed
        return bool(wanted) and all(
            name in served and served[name].registration.is_registered for name in wanted
        )

    @property
    def problem(self) -> str | None:
        """Why one of the resources is not registered, for people; None if all are."""
        served = dict(self._served)
        for name in self._device_cache.now.listed:
            if name not in served:
                return f"{name} is not registered with the kubelet yet."
            if problem := served[name].registration.problem:
                return problem
        return None

    def run(self, stop: threading.Event) -> None:
        """Serve the resources that have devices until the stop event is set."""
        wake = threading.Event()
        wake_at(stop, wake)
        try:
            with self._device_cache.listening(wake):
                while not stop.is_set():
                    self._reconcile()
                    self._clock.wait(wake, CHECK_EVERY)
                    wake.clear()
        finally:
            self._end(tuple(self._served))

    def _reconcile(self) -> None:
        wanted, now = self._device_cache.now.listed, self._clock.monotonic()
        for name in wanted:
            if name not in self._served:
                self._begin(name)
        over: list[str] = []
        for name, one in self._served.items():
            if not one.thread.is_alive():
                raise RegistrationEndedError(f"The registration of {name} has ended by itself.")
            if name in wanted:
                one.empty_since = None
            elif one.empty_since is None:
                one.empty_since = now
            elif now - one.empty_since >= LINGER:
                over.append(name)
        self._end(over)

    def _begin(self, name: str) -> None:
        registration, stop = self._registration(name), threading.Event()
        thread = threading.Thread(
            target=registration.run, args=(stop,), name=f"registration-{name}", daemon=True
        )
        self._served[name] = _Served(registration, stop, thread)
        log.info("a resource will be registered with the kubelet", resource=name)
        thread.start()

    def _end(self, over: Iterable[str]) -> None:
        ended = [self._served.pop(name) for name in over]
        for one in ended:
            one.stop.set()
        for one in ended:
            one.thread.join()
