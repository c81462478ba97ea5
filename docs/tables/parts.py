"""The parts of the product as they are actually built, with settings under which they reach nothing."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry

import deviceplugin.__main__
import extender.__main__
from booking.controller import __main__ as controller
from booking.controller.settings import ControllerSettings, UninstallSettings
from booking.server import __main__ as server
from booking.server.settings import ServerSettings
from cluster import names
from cluster.process.clock import SystemClock
from cluster.process.lifecycle import Process
from cluster.process.settings import load
from deviceplugin.settings import Settings as AgentSettings
from extender.settings import Settings as ExtenderSettings

PROBES: Final = {"probe_host": "127.0.0.1", "probe_port": "0"}
KUBE: Final = {
    "kube_server": "http://127.0.0.1:9",
    "kube_ca_file": "{folder}/token",
    "kube_token_file": "{folder}/token",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """A program with settings: its composition root and its settings."""

    name: str
    root: str
    """The module that is run."""
    settings: type[msgspec.Struct]


@dataclass(frozen=True, kw_only=True, eq=False)
class Part(Program):
    """A part: a program that keeps running and has metrics."""

    given: Mapping[str, str] = field(default_factory=dict)
    """Settings that a build needs to listen on free ports and to keep its files in ``{folder}``."""
    make: Callable[[Any, CollectorRegistry], Process]

    def variables(self, folder: Path) -> dict[str, str]:
        """The environment of a build; the files that the settings name are written into the folder."""
        (folder / "token").write_text("t")
        given = {**KUBE, **self.given}
        return {names.setting(name): value.format(folder=folder) for name, value in given.items()}

    def build(self, folder: Path) -> CollectorRegistry:
        """Build the part and stop it at once; the registry of its metrics."""
        registry = CollectorRegistry(auto_describe=True)
        process = self.make(load(self.settings, self.variables(folder)), registry)
        process.stop.set()
        process.end("nothing was to be done")
        process.run()
        return registry


AGENT: Final = Part(
    name="node agent",
    root="deviceplugin.__main__",
    settings=AgentSettings,
    given={
        "node_name": "node-a",
        "host": "127.0.0.1",
        "port": "0",
        "kubelet_root": "{folder}",
        "device_plugins": "{folder}",
    },
    make=lambda settings, registry: deviceplugin.__main__.build(
        settings, os.environ, SystemClock(), registry
    ),
)
EXTENDER: Final = Part(
    name="extender",
    root="extender.__main__",
    settings=ExtenderSettings,
    given={"port": "0", **PROBES},
    make=lambda settings, registry: extender.__main__.build(settings, SystemClock(), registry),
)
SERVER: Final = Part(
    name="booking server",
    root="booking.server.__main__",
    settings=ServerSettings,
    given={"host": "127.0.0.1", "port": "0", "database": "sqlite:///{folder}/bookings.db", **PROBES},
    make=lambda settings, registry: server.build(settings, SystemClock(), registry),
)
CONTROLLER: Final = Part(
    name="controller",
    root="booking.controller.__main__",
    settings=ControllerSettings,
    given={"webhook_host": "127.0.0.1", "webhook_port": "0", **PROBES},
    make=lambda settings, registry: controller.build(settings, SystemClock(), registry),
)
PARTS: Final = (AGENT, EXTENDER, SERVER, CONTROLLER)
UNINSTALLER: Final = Program(
    name="uninstaller", root="booking.controller.uninstall.__main__", settings=UninstallSettings
)
PROGRAMS: Final = (*PARTS, UNINSTALLER)
