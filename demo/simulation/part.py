"""A part of the system as a process: it starts, gets events, pauses, lags, is cut off, dies, restarts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from cluster.kube.errors import ApiError
from cluster.kube.reflector import Reflector
from demo.simulation.loop import Action, Life
from demo.simulation.maker import Maker
from demo.simulation.part_client import Killed, PartClock, PartKube, no_answer
from demo.simulation.surroundings import Surroundings

R = TypeVar("R")

RESTARTED_AFTER = 1.0
"""Seconds between the death of a process and its next life."""
TRIED_AGAIN_AFTER = 1.0
"""Seconds between two attempts to follow an API server that does not answer."""


class NoAnswerError(Exception):
    """A part that was asked something is dead, paused, or died of it."""


class Part:
    """One process. A subclass says in ``node_shape`` of what it is made; nothing of it outlives its life."""

    latency = 0.02
    """Seconds until events arrive, when all is well."""
    user = "system:masters"
    """The account as which it calls the API server."""
    is_ours = False
    """Whether it is a part of the product, and not of Kubernetes."""

    def __init__(self, world: Surroundings, name: str) -> None:
        self.world = world
        self.name = name
        self.skew = 0.0
        """Seconds that its machine's clock is ahead."""
        self.lag = 0.0
        """Seconds that all its events come late."""
        self.lags: dict[str, float] = {}
        """Kind -> seconds that its events of it come later still."""
        self.is_cut = False
        """Whether it cannot reach the API server."""
        self.delivers_at_once = False
        """Whether everything that was sent counts as arrived."""
        self.lives = 0
        self.life = Life(alive=False)
        self._delivery: float | None = None

    # --- its life --------------------------------------------------------------------------------------
    def start(self) -> None:
        """A new process; it knows nothing."""
        if self.life.alive:
            raise RuntimeError(f"{self.name} lives already.")
        self.life = Life()
        self.lives += 1
        self.clock = PartClock(self.world.clock, self)
        self.kube = PartKube(self.world.kube, self.world.clock, self, user=self.user)
        self._reflectors: list[Reflector[Any]] = []
        self._delivery = None
        self.build()
        self.expect_events()

    def build(self) -> None:
        """Build everything, and say what is done when."""
        raise NotImplementedError

    def kill(self) -> None:
        """It dies at once (SIGKILL): nothing is said, nothing is closed."""
        if self.life.alive:
            self.life.alive = False
            self.kube.hang_up()
            self.died()

    def died(self) -> None:
        """What the operating system does for it."""

    @property
    def is_troubled(self) -> bool:
        """Whether it lives, and something keeps it from its work: then time must not leap."""
        late = self.lag or any(self.lags.values()) or self.life.resumes > self.world.loop.now
        return self.life.alive and bool(late or self.skew or self.is_cut)

    # --- its threads -----------------------------------------------------------------------------------
    def every(
        self, seconds: float, action: Action, *, first: float = 0.0, is_sign_of_life: bool = False
    ) -> None:
        """A thread that does something again and again."""
        self.world.loop.every(
            seconds, lambda: self._guarded(action), self.life, first=first, is_sign_of_life=is_sign_of_life
        )

    def after(self, seconds: float, action: Action) -> None:
        """Something that this life does later."""
        self.world.loop.after(seconds, lambda: self._guarded(action), self.life)

    def respond(self, answer: Callable[[], R]) -> R:
        """Another part's call: the answer.

        Raises:
            NoAnswerError: there is none.
        """
        if not self.life.alive or self.life.resumes > self.world.loop.now:
            raise NoAnswerError(self.name)
        try:
            return answer()
        except Killed as death:
            self.world.restart(self)
            raise NoAnswerError(self.name) from death

    def _guarded(self, action: Action) -> None:
        try:
            action()
        except Killed:
            self.world.restart(self)

    # --- its events ------------------------------------------------------------------------------------
    def follow(self, *reflectors: Reflector[Any]) -> None:
        """These reflectors run in this process."""
        self._reflectors += reflectors

    def follows(self, plural: str) -> bool:
        """Whether this process follows a kind."""
        return any(reflector.resource.plural == plural for reflector in self._reflectors)

    def expect_events(self, plural: str | None = None) -> None:
        """Something was sent, of this kind or of any: it is read when it arrives."""
        for (kind, _, _), tap in self.kube.taps.items():
            if plural in (None, kind):
                tap.collect()
        unread = any(not reflector.is_synced for reflector in self._reflectors)
        times = [tap.next for tap in self.kube.taps.values()]
        found = [self.world.loop.now + self.latency] if unread else [at for at in times if at is not None]
        if found and (self._delivery is None or min(found) < self._delivery):
            self._delivery = min(found)
            self.after(max(0.0, self._delivery - self.world.loop.now), self._read_events)

    def _read_events(self) -> None:
        if self._delivery is None or self._delivery > self.world.loop.now + 1e-9:
            return  # an earlier reading has been there already
        self._delivery = None
        if self.is_cut or self.world.is_away:
            self._delivery = self.world.loop.now + TRIED_AGAIN_AFTER
            self.after(TRIED_AGAIN_AFTER, self._read_events)
            return
        self._catch_up()
        self.expect_events()

    def catch_up_at_once(self) -> None:
        """Read everything that was sent, as if no time were needed."""
        self.delivers_at_once = True
        try:
            self._guarded(self._catch_up)
        finally:
            self.delivers_at_once = False

    def _catch_up(self) -> None:
        for reflector in self._reflectors:
            while not reflector.is_synced or self._tap(reflector).is_due(at_once=self.delivers_at_once):
                if reflector.round() is not None and not reflector.is_synced:
                    return
        self.on_events()

    def lose_watches(self, error: ApiError) -> None:
        """Every watch ends with an error; what was sent and not read is lost."""
        for tap in self.kube.taps.values():
            tap.lose(error)
        self.expect_events()

    def on_events(self) -> None:
        """Something new may be known."""

    def _tap(self, reflector: Reflector[Any]) -> Any:
        return self.kube.taps[reflector.resource.plural, reflector.resource.type, reflector.selection]

    def lag_of(self, plural: str) -> float:
        """See ``Caller``."""
        return self.lag + self.lags.get(plural, 0.0)

    # --- its calls -------------------------------------------------------------------------------------
    @contextmanager
    def calling(self) -> Iterator[None]:
        """See ``Caller``."""
        before, self.world.caller = self.world.caller, self
        try:
            yield
        finally:
            self.world.caller = before

    def known(self) -> Maker:
        """What the law watcher must know of a writer."""
        return Maker(name=self.name, is_ours=self.is_ours, staleness=self.kube.staleness(), skew=self.skew)

    def before(self, call: str) -> None:
        """See ``Caller``."""
        if not self.life.alive:
            raise Killed
        for interruption in tuple(self.world.interruptions):
            interruption(self, call, done=False)
        if self.is_cut or self.world.is_away:
            raise no_answer(call)

    def done(self, call: str) -> None:
        """See ``Caller``."""
        for interruption in tuple(self.world.interruptions):
            interruption(self, call, done=True)
