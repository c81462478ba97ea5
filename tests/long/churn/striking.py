"""Carries out what was drawn, and measures how soon what was struck is back."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from cluster import names
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.lease_writer import micro_time
from cluster.kube.resources import LEASES, NODES
from cluster.process.clock import SystemClock
from devcluster.daemons import Daemon
from devcluster.errors import ClusterError
from devcluster.wait import Stopwatch, poll
from tests.long.churn.ground import CONTROLLERS, MODULES, Ground
from tests.long.churn.recoveries import Recovery
from tests.long.churn.strikes import GONE_SILENTLY, Strike, group_of
from tests.patience import PATIENCE
from tests.threads import Timetable

Report = Callable[[str], None]

ASKS_EVERY: Final = 0.05
READY: Final = frozenset(MODULES)
"""Parts that say when they are ready."""
TELLS_TIME: Final = "differ by more than"
"""What a part says whose clock is wrong."""
THIEF: Final = "somebody-else"
PASSES: Final = "reclaimer_reconcile_seconds_count"


class Striking:
    """One round; ``run`` returns when everything is over and everybody is back."""

    def __init__(self, ground: Ground, *, fault: Report, say: Report) -> None:
        self._ground = ground
        self._cluster = ground.cluster
        self._fault = fault
        self._say = say
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._timetable = Timetable()
        self._gone: set[str] = set()
        self.recovered: list[Recovery] = []
        """How soon who was started again acted again."""
        self.led: set[str] = set()
        """Controllers that were seen to reclaim."""
        self.refused: list[str] = []
        """What parts with wrong clocks have said."""

    def run(self, strikes: list[Strike]) -> None:
        """Carry out all of them at their moments; raises what went wrong in any."""
        self._timetable.run(strikes, self._carry_out, lambda strike: group_of(strike.target))

    def _carry_out(self, strike: Strike) -> None:
        self._report(f"{strike.target} {strike.kind}")
        self._deed(strike)
        self._report(f"{strike.target} is over: {strike.kind}")

    def _deed(self, strike: Strike) -> None:
        deeds = {
            "killed": self._kill,
            "paused": self._pause,
            "leader paused": self._pause_leader,
            "lease stolen": self._steal,
            "clock wrong": self._put_clock_wrong,
            "node gone": self._lose_node,
        }
        deeds[strike.kind](strike)

    # --- what can happen -------------------------------------------------------------------------------
    def _kill(self, strike: Strike) -> None:
        daemon = self._cluster.daemon(strike.target)
        reclaims = self._holds_the_lease(strike.target)
        daemon.kill()
        self._wait(strike.seconds)
        self._recover(strike.target, daemon.restart, reclaims=reclaims)

    def _pause(self, strike: Strike) -> None:
        daemon = self._cluster.daemon(strike.target)
        daemon.pause()
        self._wait(strike.seconds)
        daemon.resume()

    def _pause_leader(self, strike: Strike) -> None:
        """Another takes over meanwhile: when this one wakes up, it believes for a moment that it leads."""
        name = self.leader()
        daemon = self._cluster.daemon(name)
        daemon.pause()
        self._report(f"{name} is stopped")
        self._wait(strike.seconds)
        successor = self.leader()
        daemon.resume()
        assert successor != name, f"{name}, which was stopped, was asked and answered"

    def _steal(self, _strike: Strike) -> None:
        """Somebody writes another name into the Lease of the reclaimers, and never renews it."""
        at = micro_time(self._clock.now())
        body = {"spec": {"holderIdentity": THIEF, "renewTime": at}}
        self._patiently(
            lambda: self._ground.kube.patch(LEASES, names.CONTROLLER_LEASE, body, namespace=names.NAMESPACE)
        )

    def _put_clock_wrong(self, strike: Strike) -> None:
        """The part must report it and do nothing; then its clock is put right."""
        usual = self._cluster.daemon(strike.target)
        usual.kill()
        daemon = self._ground.start_wrong(strike.target, strike.amount)

        def says_so() -> str | None:
            text = self._ground.parts.ask(daemon, "/readyz")[1]
            return text if TELLS_TIME in text else None

        message = poll(says_so, seconds=PATIENCE)
        assert message, f"{strike.target} does not mind that its clock is wrong by {strike.amount:.0f} s"
        self.refused.append(message.strip())
        self._see_another_reclaim(strike.target)
        self._wait(strike.seconds)
        reclaims = self._holds_the_lease(strike.target)
        daemon.kill()
        self._recover(strike.target, lambda: self._ground.start_right(strike.target), reclaims=reclaims)

    def _see_another_reclaim(self, name: str) -> None:
        """Whose clock is wrong may do nothing, and does not keep a controller that may from leading."""
        if name not in CONTROLLERS:
            return
        parts = self._ground.parts
        (other,) = set(CONTROLLERS) - {name}
        daemon = self._cluster.daemon(other)
        leads = poll(lambda: parts.leads(daemon), seconds=PATIENCE)
        assert leads, f"nobody reclaims while the clock of {name} is wrong"

    def _lose_node(self, strike: Strike) -> None:
        """Its kubelet and its agent fall silent; for the shortest time the Node object is gone as well."""
        with self._lock:
            self._gone.add(strike.target)
            self._ground.configure(gone=tuple(sorted(self._gone)))
        self._wait(1.5)
        if strike.seconds != GONE_SILENTLY:
            with suppress(NotFound):
                self._patiently(lambda: self._ground.kube.delete(NODES, strike.target))
        self._wait(strike.seconds)
        with self._lock:
            self._gone.discard(strike.target)
            self._ground.configure(gone=tuple(sorted(self._gone)))

    # --- seeing ----------------------------------------------------------------------------------------
    def leader(self) -> str:
        """The controller that reclaims."""

        def found() -> str | None:
            parts = self._ground.parts
            leading = [n for n in CONTROLLERS if parts.leads(self._cluster.daemon(n))]
            return leading[0] if leading else None

        name = poll(found, seconds=PATIENCE)
        assert name, "nobody reclaims"
        self.led.add(name)
        return name

    def _recover(self, name: str, start: Callable[[], object], *, reclaims: bool) -> None:
        """Start a part, and see how soon it acts; then how soon a bare process does.

        One after the other: together they would take the processors from each other, and the part be back
        later than where nobody measures.

        Args:
            name: of the part.
            start: starts it.
            reclaims: whether somebody has to reclaim again, too.
        """
        start()
        if name not in READY:
            return
        watch, daemon = Stopwatch(), self._cluster.daemon(name)

        def acts() -> bool:
            return self._ground.parts.is_ready(daemon) and not (reclaims and self._nobody_reclaims())

        is_back = poll(acts, seconds=PATIENCE, every=ASKS_EVERY)
        seconds = watch.seconds
        assert is_back, f"{name} does not recover: {self._ground.parts.ask(daemon, '/readyz')[1]}"
        recovery = Recovery(part=name, seconds=seconds, floor=self._bare(name))
        with self._lock:
            self.recovered.append(recovery)
        self._report(f"recovered: {recovery}")

    def _bare(self, name: str) -> float:
        """Seconds that nobody can save of a start."""
        watch = Stopwatch()
        self._ground.run_bare(name)
        return watch.seconds

    def _nobody_reclaims(self) -> bool:
        parts = self._ground.parts
        controllers = [self._cluster.daemon(name) for name in CONTROLLERS]
        return not any(parts.leads(one) and self._has_looked(one) for one in controllers)

    def _has_looked(self, controller: Daemon) -> bool:
        with suppress(ClusterError):  # struck again
            return self._ground.parts.metric(controller, PASSES) > 0
        return False

    def _holds_the_lease(self, name: str) -> bool:
        """Whether this one reclaims; not, where somebody has stolen the Lease without its knowing yet."""
        if name not in CONTROLLERS:
            return False
        holder: list[str] = []

        def read() -> None:
            lease = self._ground.kube.get(LEASES, names.CONTROLLER_LEASE, namespace=names.NAMESPACE)
            holder.append(lease.spec.holder_identity or "")

        self._patiently(read)
        return holder[-1].startswith(f"{name}_")

    def _patiently(self, call: Callable[[], object]) -> None:
        def done() -> bool:
            try:
                call()
            except NotFound:
                raise
            except ApiError:
                return False
            return True

        assert poll(done, seconds=PATIENCE, every=0.5), "the API server does not answer"

    def _report(self, message: str) -> None:
        self._fault(message)
        self._say(message)

    def _wait(self, seconds: float) -> None:
        self._clock.wait(threading.Event(), seconds)
