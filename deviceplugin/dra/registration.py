"""Where the kubelet finds the driver: two sockets, of which the second one tells it about the first.

The kubelet watches its folder of plugins: it asks every socket there which plugin it is, also after its own
restart, and forgets a plugin whose socket goes away. So the socket of the registration comes last and goes
first. Source: kubelet 1.37.1, pluginmanager.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import structlog

from cluster import names
from cluster.process.clock import Clock
from deviceplugin.dra.driver import ClaimDriver, Pool
from deviceplugin.dra.prepared import PreparedError
from deviceplugin.dra.servicer import Claims, Health, Registration, serve
from deviceplugin.kubelet.channel import is_served
from deviceplugin.kubelet.registration import SocketNames
from deviceplugin.kubeletapi.pluginregistration_v1 import api_pb2_grpc as registration_grpc

log = structlog.get_logger(__name__)

CHECK_EVERY: Final = 0.5
"""Seconds between two looks at whether the driver may be served."""
GRACE: Final = 2.0
"""Seconds for calls in progress when a server stops."""
WORKERS: Final = 80
"""Most threads for calls. The kubelet prepares several pods at once, and holds a stream open; a claim that
waits for the end of another one must leave a thread for that end: a node has 56 MIG devices at most."""


@dataclass(frozen=True, kw_only=True)
class Endpoints:
    """Where the sockets are."""

    kubelet_root: Path
    driver: str
    names: SocketNames

    @property
    def own(self) -> Path:
        """The folder of the driver's socket."""
        return self.kubelet_root / "plugins" / self.driver

    @property
    def registry(self) -> Path:
        """The folder that the kubelet watches."""
        return self.kubelet_root / "plugins_registry"


class DriverRegistration:
    """The thread that serves the driver to the kubelet."""

    def __init__(
        self,
        endpoints: Endpoints,
        driver: ClaimDriver,
        health: Health,
        pool: Pool,
        *,
        rejection: Callable[[], str | None],
        registered: Callable[[], None],
        clock: Clock,
    ) -> None:
        """Args: rejection: why it must not be served, or None. registered: called when the kubelet has it."""
        self._endpoints = endpoints
        self._driver = driver
        self._health = health
        self._pool = pool
        self._rejection = rejection
        self._on_registered = registered
        self._clock = clock
        self._servers: list[grpc.Server] = []
        self._name = ""
        self._problem: str | None = "The driver is not registered with the kubelet yet."

    @property
    def is_registered(self) -> bool:
        """Whether the kubelet has registered the driver."""
        return self._problem is None

    @property
    def problem(self) -> str | None:
        """Why it is not registered, for people; None if it is."""
        return self._problem

    def run(self, stop: threading.Event) -> None:
        """Serve the driver until the stop event is set."""
        try:
            while not stop.is_set():
                self._step()
                self._clock.wait(stop, CHECK_EVERY)
        finally:
            self._end()

    def _step(self) -> None:
        rejection = self._rejection()
        if rejection is not None:
            if self._servers:
                self._end()
            self._problem = rejection
        elif not self._servers:
            before = self._problem
            try:
                self._begin()
            except (OSError, RuntimeError, PreparedError) as error:
                self._end()
                self._problem = f"The driver cannot be served: {error}"
                if self._problem != before:
                    log.warning("the driver cannot be served", message=self._problem)
        elif not all(path.exists() for path in self._sockets()):
            log.warning("a socket of the driver was deleted: it is served anew", socket=self._name)
            self._end()

    def _sockets(self) -> tuple[Path, Path]:
        return self._endpoints.own / self._name, self._endpoints.registry / self._name

    def _begin(self) -> None:
        self._driver.start()
        self._name = self._endpoints.names.next()
        own, registry = self._sockets()
        own.parent.mkdir(parents=True, exist_ok=True)
        self._remove_left_over()
        self._problem = f"The kubelet has not asked for {registry} yet."
        driver = _server(own)
        serve(Claims(self._driver, self._pool.node), self._health, driver)
        driver.start()
        self._servers.append(driver)
        registration = _server(registry)
        registration_grpc.add_RegistrationServicer_to_server(
            Registration(self._endpoints.driver, str(own), self._reported), registration
        )
        registration.start()
        self._servers.append(registration)
        log.info("the driver is served to the kubelet", driver=self._endpoints.driver, socket=str(own))

    def _reported(self, error: str | None) -> None:
        self._problem = None if error is None else f"The kubelet has not registered the driver: {error}."
        if error is None:
            log.info("the driver is registered with the kubelet", driver=self._endpoints.driver)
            self._on_registered()
        else:
            log.warning("the kubelet has not registered the driver", message=self._problem)

    def _end(self) -> None:
        for server in reversed(self._servers):
            server.stop(GRACE).wait()
        self._servers = []
        self._endpoints.names.done(self._name)
        self._problem = "The driver is not registered with the kubelet yet."
        with suppress(OSError):
            self._remove_left_over()

    def _remove_left_over(self) -> None:
        """Remove our sockets of earlier starts, and those of agents that are gone."""
        for folder in (self._endpoints.own, self._endpoints.registry):
            for path in folder.glob(f"{names.SOCKET_PREFIX}*.sock") if folder.is_dir() else ():
                if self._endpoints.names.is_left_over(path.name) or not is_served(path):
                    path.unlink(missing_ok=True)


def _server(path: Path) -> grpc.Server:
    server = grpc.server(ThreadPoolExecutor(WORKERS, thread_name_prefix="kubelet-claims"))
    server.add_insecure_port(f"unix:{path}")
    return server
