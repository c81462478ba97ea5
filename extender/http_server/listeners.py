"""Serves the verbs: by HTTP next to our own scheduler, by mutual TLS for the cluster's own scheduler."""

from importlib import import_module
from typing import TYPE_CHECKING

from cluster.process.clock import Clock
from cluster.process.lifecycle import Process
from cluster.process.loopback import LoopbackServer
from extender.existing import Served
from extender.settings import Settings

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication


def serve_plainly(app: "WSGIApplication", settings: Settings, process: Process, clock: Clock) -> None:
    """Serve by HTTP, in mode ``dedicated``.

    Raises:
        ServeError: the address is taken or not ours.
    """
    server = LoopbackServer(
        app,
        settings.host,
        settings.port,
        clock,
        connections=settings.threads,
        longest_body=settings.max_body_bytes,
    )
    process.closing("verbs", server.close)


def serve_by_tls(app: "WSGIApplication", settings: Settings, process: Process, clock: Clock) -> Served:
    """Serve by mutual TLS, in mode ``existing``: calls ``tls.serve_by_tls``, which is slow to import.

    Raises:
        SettingsError: a file is not named, or the clients' authority cannot be read.
        ServeError: the address is taken or not ours, or that file has no certificate.
    """
    found: Served = import_module("extender.http_server.tls").serve_by_tls(app, settings, process, clock)
    return found
