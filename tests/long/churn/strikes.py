"""What befalls the cluster during the churn: a menu, whose moments and targets are drawn from a seed.

Everybody of ours is killed, some are stopped, two controllers believe that they lead, a Lease is stolen,
nodes vanish, clocks are wrong. Each kind comes once in every round.
"""

from dataclasses import dataclass
from typing import Final, Literal

from devcluster.product import booking_server, extender, gpu_scheduler
from tests.long.churn.ground import AGENT, AGENTS, CONTROLLERS, KUBELETS
from tests.long.fire.harm import share

Kind = Literal["killed", "paused", "leader paused", "lease stolen", "clock wrong", "node gone"]

LEADER: Final = "the leader"
GONE_SILENTLY: Final = 25.0
"""Seconds after which a node comes back whose object was there all the time."""
PARTS: Final = (
    booking_server.NAME,
    extender.NAME,
    gpu_scheduler.NAME,
    *CONTROLLERS,
    AGENT,
    KUBELETS,
    AGENTS,
)
WITH_A_CLOCK: Final = (booking_server.NAME, extender.NAME, *CONTROLLERS)
LONGEST_DOWN: Final = 2.0
PAUSE: Final = 6.0
LONG_PAUSE: Final = 20.0
"""Longer than the Lease of a leader."""
WRONG_FOR: Final = 8.0
LEAST_WRONG: Final = 31.0
MOST_WRONG: Final = 7200.0
GONE: Final = (8.0, GONE_SILENTLY, 45.0)
"""Seconds that nodes are away: for less than, about as long as, and longer than Kubernetes waits for them."""
BEGINS: Final = 5.0
"""Seconds of a round in which people book and ask before anything befalls it."""
STEPS: Final = 256
"""Moments of a round of which one is drawn."""
QUIET: Final = 6.0
"""Seconds at the end of a round in which nothing new befalls it."""


@dataclass(frozen=True)
class Strike:
    """One thing that happens."""

    at: float
    """Seconds after the beginning of the round."""
    kind: Kind
    target: str
    seconds: float
    """How long it lasts."""
    amount: float = 0.0
    """By how much a clock is wrong."""

    @property
    def end(self) -> float:
        """When it is over."""
        return self.at + self.seconds

    def __str__(self) -> str:
        by = f" by {self.amount:+.0f} s" if self.amount else ""
        return f"{self.at:5.1f} s: {self.target} {self.kind}{by} for {self.seconds:.1f} s"


def drawn(seed: str, seconds: float, nodes: tuple[str, ...]) -> list[Strike]:
    """One round: everything of the menu, nobody struck twice at one moment."""
    found: list[Strike] = []
    for kind, target, lasts, amount in _menu(seed, nodes):
        at = _moment(seed, f"{kind} {target} {lasts}", lasts, seconds, _taken(found, target))
        if at is not None:
            found.append(Strike(at, kind, target, lasts, amount))
    return sorted(found, key=lambda strike: strike.at)


def _menu(seed: str, nodes: tuple[str, ...]) -> list[tuple[Kind, str, float, float]]:
    """Kind, target, how long, by how much: what lasts longest is given its moment first."""
    away = sorted(nodes, key=lambda node: share(seed, node, "away"))
    pausable = (booking_server.NAME, extender.NAME, gpu_scheduler.NAME, KUBELETS, AGENTS)
    still = sorted(pausable, key=lambda part: share(seed, part, "still"))
    wrong = sorted(WITH_A_CLOCK, key=lambda part: share(seed, part, "wrong"))
    menu: list[tuple[Kind, str, float, float]] = [
        *(("node gone", node, lasts, 0.0) for node, lasts in zip(away, GONE, strict=False)),
        ("leader paused", LEADER, LONG_PAUSE, 0.0),
        ("clock wrong", wrong[0], WRONG_FOR, _wrong(seed)),
        ("lease stolen", LEADER, 1.0, 0.0),
        *(("paused", part, PAUSE, 0.0) for part in still[:2]),
        *(("killed", part, LONGEST_DOWN * share(seed, part, "down"), 0.0) for part in PARTS),
    ]
    return menu


def _wrong(seed: str) -> float:
    amount = LEAST_WRONG + (MOST_WRONG - LEAST_WRONG) * share(seed, "wrong", "amount") ** 3
    return amount if share(seed, "wrong", "sign") < 1 / 2 else -amount


def group_of(target: str) -> str:
    """Whose members are struck one after the other: the leader may be either controller."""
    return LEADER if target in CONTROLLERS else target


def _taken(found: list[Strike], target: str) -> list[Strike]:
    """Strikes that must not overlap with one on this target."""
    return [one for one in found if group_of(one.target) == group_of(target)]


def _moment(seed: str, about: str, lasts: float, seconds: float, taken: list[Strike]) -> float | None:
    """When it begins; None where there is no room for it any more."""
    room = max(0.0, seconds - BEGINS - QUIET - lasts)
    moments = (BEGINS + room * step / STEPS for step in range(STEPS + 1))
    free = [at for at in moments if all(at + lasts + 1 < one.at or at > one.end + 1 for one in taken)]
    return free[int(len(free) * share(seed, about))] if free else None
