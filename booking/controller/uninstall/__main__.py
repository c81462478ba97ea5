"""``python -m booking.controller.uninstall``: prepares the removal of the product. The composition root.

Reports in sentences what it does. Exit code 1: something is left to do, and another run continues; 2:
unusable settings.
"""

import os
import sys
from collections.abc import Callable

from booking.controller.settings import UninstallSettings
from booking.controller.uninstall.cleanup import Cleanup
from booking.controller.uninstall.comebacks import ComebackDrain
from booking.controller.uninstall.steps import Patience, in_order
from booking.controller.uninstall.stopping import Report, Stopping
from cluster import names
from cluster.kube.backoff import unpredictable
from cluster.kube.client import KubeClient
from cluster.kube.connection import BadConnectionError
from cluster.kube.events import EventRecorder
from cluster.kube.interface import Kube
from cluster.kube.official_client import configured
from cluster.process import logs
from cluster.process.clock import Clock, SystemClock
from cluster.process.settings import SettingsError, load

BAD_SETTINGS = 2


def main() -> int:
    """Uninstall; returns the exit code."""
    clock = SystemClock()
    try:
        settings = load(UninstallSettings, os.environ)
        logs.configure(level=settings.log_level, style=settings.log_style)
        connection = configured(settings, clock, os.environ)
    except (SettingsError, BadConnectionError) as error:
        sys.stderr.write(f"{error}\n")
        return BAD_SETTINGS
    kube = KubeClient(connection, clock, user_agent=names.UNINSTALLER)
    try:
        return 0 if uninstall(kube, clock, settings, report=_print) else 1
    finally:
        kube.close()


def uninstall(kube: Kube, clock: Clock, settings: UninstallSettings, *, report: Report) -> bool:
    """Do everything that is due before or after the deletion of the release; returns whether all is done."""
    events = EventRecorder(kube, clock, component=names.UNINSTALLER)
    stopping = Stopping(kube, clock, namespace=settings.namespace, report=report)
    comeback_drain = ComebackDrain(kube, clock, events, report=report, random=unpredictable())
    clearing = Cleanup(
        kube, namespace=settings.namespace, keeps_bookings=settings.keep_bookings, report=report
    )
    steps: list[Callable[[], str | None]] = [
        stopping.controller,
        stopping.admission,
        comeback_drain.advance,
        stopping.others,
        clearing.pods,
        clearing.nodes,
        clearing.objects,
        lambda: clearing.report_remaining(settings.scheduler_name),
    ]
    done = in_order(steps, Patience(clock=clock, seconds=settings.timeout_seconds), report)
    events.flush()
    return done


def _print(message: str) -> None:
    sys.stdout.write(f"{message}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
