"""The thread that turns measurements of NVML's thread into metrics, Events and the text on the Lease.

It does not call NVML: the watching thread passes its measurements on (``update``). The holders are read with
each measurement, and every ten seconds without one, so a driver that hangs does not make the holders' metrics
stale. Measurements that are too old are no longer shown.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cluster import names
from cluster.objects.device_usage import NodeUsage, encode_use
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.process.clock import Clock
from deviceplugin.nvml.watch import UsageReport
from deviceplugin.usage.holders import HolderSnapshot
from deviceplugin.usage.overuse_events import OveruseReporter
from deviceplugin.usage.processes import Processes
from deviceplugin.usage.snapshot import UsageSnapshot, join, use_of
from deviceplugin.usage.squatter_events import SquatterReporter
from deviceplugin.usage.squatters import (
    SquattingProcess,
    Suspects,
    families,
    processes_on_devices,
    squatting,
    used_by_pods,
)
from deviceplugin.usage.usage_metrics import UsageMetrics

CHECK_EVERY: Final = 1.0
"""Seconds between two checks for a new measurement."""
ROUND_EVERY: Final = 10.0
"""Seconds after which the holders are read without a new measurement."""
OLD_AFTER: Final = 30.0
"""Seconds after which a measurement is no longer shown."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """An administrator's settings about the report of use."""

    proc: Path = Path("/proc")
    tolerated: frozenset[str] = frozenset()
    """Names of processes of no pod that may use GPUs."""
    of_daemons: Callable[[], frozenset[str]] = frozenset
    """Uids of pods whose processes serve those of others: MPS's daemons."""
    report_every: float = 10.0
    """Seconds between two texts for the Lease; 0: none."""
    as_reported: Callable[[NodeUsage], NodeUsage] = lambda use: use
    """How the use is told to people: beside another plugin, under the numbers of the GPUs."""


class UsageMonitor:
    """Keeps the newest snapshot."""

    def __init__(
        self,
        snapshot: Callable[[], HolderSnapshot],
        metrics: UsageMetrics,
        reporter: SquatterReporter,
        *,
        overuse: OveruseReporter,
        all_pods: Callable[[], tuple[Pod, ...]],
        options: Options,
        clock: Clock,
    ) -> None:
        """Nothing is known yet.

        Args:
            snapshot: reads the holders of all devices now.
            metrics: updated with every snapshot.
            reporter: writes Events about squatters.
            overuse: writes Events about pods that use more of a GPU than their shares.
            all_pods: all pods of the node: a squatter need not have requested a GPU.
            options: of this node.
            clock: for ages.
        """
        self._holder_snapshot = snapshot
        self._metrics = metrics
        self._reporter = reporter
        self._overuse = overuse
        self._all_pods = all_pods
        self._options = options
        self._clock = clock
        self._processes = Processes(options.proc)
        self._suspects = Suspects()
        self._squatting: tuple[SquattingProcess, ...] = ()
        self._lock = threading.Lock()
        self._report: tuple[UsageReport, float] | None = None
        self._is_new = False
        self._round_at: float | None = None
        self._text_at: float | None = None
        self._text: str | None = None

    def update(self, report: UsageReport) -> None:
        """A measurement, in NVML's thread: it must not wait for anything."""
        with self._lock:
            self._report = (report, self._clock.monotonic())
            self._is_new = True

    def observe(self, node: Node) -> None:
        """Take over the Node that Events are written on. Safe from any thread."""
        self._reporter.observe(node)
        self._overuse.observe(node)

    def annotations(self) -> Mapping[str, str | None]:
        """The annotations for the Lease."""
        return {names.USE: self.text()}

    def snapshot(self) -> HolderSnapshot:
        """The holders of all devices now. Safe from any thread."""
        return self._holder_snapshot()

    def age(self) -> float | None:
        """Seconds since the newest measurement; None before the first."""
        with self._lock:
            return None if self._report is None else self._clock.monotonic() - self._report[1]

    def text(self) -> str | None:
        """The usage for the Lease, which the booking server reads; None if it is unknown or not published."""
        age = self.age()
        return self._text if age is not None and age < OLD_AFTER else None

    def run(self, stop: threading.Event) -> None:
        """Run rounds until the stop event is set."""
        while not self._clock.wait(stop, CHECK_EVERY):
            self.once()

    def once(self) -> None:
        """One check: run a round if there is a new measurement or ``ROUND_EVERY`` is over."""
        now = self._clock.monotonic()
        with self._lock:
            report, is_new, self._is_new = self._report, self._is_new, False
        is_due = self._round_at is None or now - self._round_at >= ROUND_EVERY
        if not is_new and not is_due:
            return
        self._round_at = now
        current = report[0] if report is not None and now - report[1] < OLD_AFTER else UsageReport()
        snapshot = self._snapshot(current, is_new=is_new)
        self._metrics.show(snapshot)
        self._reporter.report(snapshot)
        self._overuse.report(snapshot)
        self._keep_text(snapshot, now)

    def _snapshot(self, report: UsageReport, *, is_new: bool) -> UsageSnapshot:
        on_devices = processes_on_devices(report.devices, report.of)
        pids = {where.process.pid for where in on_devices}
        seen = {pid: process for pid in pids if (process := self._processes.see(pid)) is not None}
        # Read after the processes: a process that runs got its device before.
        snapshot = self._holder_snapshot()
        if is_new and snapshot.is_certain:
            family = families(report.devices)
            found = squatting(
                [one for one in on_devices if snapshot.claimed.isdisjoint(family[one.device.uuid])],
                seen,
                snapshot.held,
                family=family,
                tolerated=self._options.tolerated,
            )
            servants = self._options.of_daemons()
            self._squatting = self._suspects.confirmed(
                [one for one in found if one.seen.owner.uid not in servants]
            )
        elif not report.of:
            self._squatting = ()
        return join(
            report.devices,
            report.of,
            snapshot=self._with_squatters(snapshot),
            memory=used_by_pods(on_devices, seen),
            squatting=self._squatting,
        )

    def _with_squatters(self, snapshot: HolderSnapshot) -> HolderSnapshot:
        """The snapshot, with the squatters' pods added to its pods."""
        unknown = {one.seen.owner.uid for one in self._squatting} - {
            pod.metadata.uid for pod in snapshot.pods
        }
        if not unknown - {None}:
            return snapshot
        named = tuple(pod for pod in self._all_pods() if pod.metadata.uid in unknown)
        return replace(snapshot, pods=(*snapshot.pods, *named))

    def _keep_text(self, snapshot: UsageSnapshot, now: float) -> None:
        every = self._options.report_every
        if not every or not snapshot.usages:
            self._text = None
        elif self._text_at is None or now - self._text_at >= every:
            self._text_at = now
            self._text = encode_use(self._options.as_reported(use_of(snapshot, self._clock.now())))
