"""One world: a simulation whose laws are watched, with people in it, and all that can go wrong.

Everything runs in one thread by virtual time, so that the same scenario gives the same history each time.
"""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from booking.policy.limits import Limits
from cluster.kube.resources import WholePod
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from demo.simulation.maker import Maker
from demo.simulation.part import RESTARTED_AFTER, Part
from demo.simulation.simulation import Simulation
from tests.fakes.objects import EPOCH, a100
from tests.laws.memory import watch_memory
from tests.scenarios.person import NAMESPACE, Person
from tests.scenarios.restarting import restarted


class World(Simulation):
    """Nodes with GPUs, all parts, alice and bob."""

    def __init__(
        self,
        folder: Path,
        nodes: Mapping[str, tuple[Device, ...]] | None = None,
        *,
        replicas: int = 1,
        policy: Limits | None = None,
        leeway: float = 0.1,
        **settings: Any,
    ) -> None:
        """Everything is started and well when it returns.

        Args:
            folder: for the booking database.
            nodes: name -> GPUs; by default two nodes with two A100s each.
            replicas: of the controller.
            policy: of the booking server.
            leeway: seconds by which the events of a decider may be late.
            settings: of the controller, e.g. ``notice_seconds``.
        """
        devices = nodes or {name: tuple(a100(n, name) for n in range(2)) for name in ("n0", "n1")}
        super().__init__(folder, devices, start=EPOCH, replicas=replicas, policy=policy, **settings)
        claims = bool(settings.get("book_claims"))
        self.laws = watch_memory(self.kube, self.clock, leeway=leeway, maker=self._maker, claims=claims)
        self.is_unfinished = False
        """Whether the test ends while somebody has still to come back."""
        self.is_compared = False
        """Whether it was the same after a restart as before it (law L9)."""
        self.alice, self.bob = Person(self, "alice"), Person(self, "bob")
        self.begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        try:
            if failed is None:
                (self.laws.check if self.is_unfinished else self.laws.finish)()
                self.is_compared = restarted(self)
                self.laws.check()
        finally:
            self.close()

    # --- faults ----------------------------------------------------------------------------------------
    def kill(self, name: str, *, back_after: float | None = RESTARTED_AFTER) -> None:
        """A part dies; another process takes its place, unless ``back_after`` is None."""
        part = self.parts[name]
        self.laws.fault(f"{name} is killed")
        part.kill()
        if back_after is not None:
            self.loop.after(back_after, lambda: self._start(part), self.life)

    def restart(self, part: Part) -> None:
        """It has died by itself, in the middle of something."""
        self.kill(part.name)

    def start(self, name: str) -> None:
        """A part that was killed starts again."""
        self._start(self.parts[name])

    def _start(self, part: Part) -> None:
        if not part.life.alive:
            self.laws.fault(f"{part.name} starts")
            part.start()
            self._stir()

    def pause(self, name: str, seconds: float) -> None:
        """A part is stopped (SIGSTOP), then goes on."""
        self.laws.fault(f"{name} is paused")
        self.parts[name].life.resumes = self.loop.now + seconds
        self.loop.after(seconds, lambda: self.laws.fault(f"{name} goes on"), self.life)

    def lag(self, name: str, seconds: float, *, kind: str | None = None) -> None:
        """A part gets all events, or those of one kind, so much later."""
        part = self.parts[name]
        self.laws.fault(f"{name} lags by {seconds:g} s{f' with {kind}' if kind else ''}")
        if kind is None:
            part.lag = seconds
        else:
            part.lags[kind] = seconds
        part.expect_events()

    def cut(self, name: str, *, cut: bool = True) -> None:
        """A part cannot reach the API server, or can again."""
        self.laws.fault(f"{name} is {'cut off' if cut else 'connected again'}")
        self.parts[name].is_cut = cut

    def away(self, seconds: float) -> None:
        """The API server answers nobody for so long."""
        self.laws.fault("the API server is away")
        self.is_away = True
        self.run(seconds)
        self.is_away = False
        self.laws.fault("the API server is back")

    def spoil_database(self, *, spoilt: bool = True) -> None:
        """The booking database answers with errors, or works again."""
        self.laws.fault(f"the booking database {'cannot be used' if spoilt else 'can be used again'}")
        (self.server.spoil if spoilt else self.server.mend)()

    # --- what can be seen ------------------------------------------------------------------------------
    def allocated(self, node: str) -> None:
        """The law watcher sees the kubelets' checkpoints."""
        self.laws.kubelet(node, self.kubelets[node].holdings)

    def _maker(self) -> Maker | None:
        return self.caller.known() if self.caller else None

    def pods(self, *, namespace: str = NAMESPACE) -> list[Pod]:
        """As stored."""
        return super().pods(namespace=namespace)

    def pod(self, name: str, *, namespace: str = NAMESPACE) -> Pod | None:
        """As stored, None when there is none."""
        return super().pod(name, namespace=namespace)

    def whole(self, name: str, *, namespace: str = NAMESPACE) -> WholePod:
        """With nothing left out."""
        return super().whole(name, namespace=namespace)

    def at(self, **span: float) -> Any:
        """An instant so far after the beginning: ``days=1``."""
        return EPOCH + timedelta(**span)
