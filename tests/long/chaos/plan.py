"""What befalls the product: drawn from a seed. Pure.

In every round each target is struck once, in waves of one or two at a time. How a part of ours is struck goes
round: a container that is killed again and again is started later and later by its kubelet, and one of a new
pod at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tests.long.fire.harm import share

Kind = Literal["killed", "deleted", "paused"]

OURS: Final[tuple[Kind, ...]] = ("killed", "deleted", "paused")
"""How our parts are struck: a container's processes, the pod by force, the processes again."""
AGENT: Final = "node-agent"
"""One on each node: `node-a/node-agent`."""
SERVER: Final = "booking server"
CONTROLLER: Final = "leading controller"
EXTENDER: Final = "extender of the leading scheduler"
SCHEDULER: Final = "leading scheduler"
CLUSTERS: Final = ("etcd", "kube-apiserver")
"""Processes of the whole cluster."""
ON_NODES: Final = ("kubelet", "containerd")
"""Processes of each node; with containerd its shims live on."""
ROUND: Final = 60.0
"""Seconds in which everybody is struck once."""
PAIRS: Final = 0.5
"""Share of the waves in which two are struck."""
SHORTEST_DOWN: Final = 0.5
LONGEST_DOWN: Final = 6.0
"""Seconds for which a process of the cluster is away."""
SHORTEST_PAUSE: Final = 4.0
LONGEST_PAUSE: Final = 20.0
"""Longer than the Lease of a leader, shorter than a liveness probe waits."""


@dataclass(frozen=True)
class Harm:
    """One thing that happens."""

    at: float
    """Seconds after the beginning."""
    kind: Kind
    target: str
    seconds: float
    """How long a process is away or stopped."""

    @property
    def end(self) -> float:
        """When it is over."""
        return self.at + self.seconds

    def __str__(self) -> str:
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.at:5.1f} s: {self.target} {self.kind}{lasts}"


def targets_of(nodes: Sequence[str]) -> tuple[str, ...]:
    """Who is struck."""
    agents = tuple(f"{node}/{AGENT}" for node in nodes)
    daemons = tuple(f"{node}/{name}" for node in nodes for name in ON_NODES)
    return (*agents, SERVER, CONTROLLER, EXTENDER, SCHEDULER, *daemons, *CLUSTERS)


def is_ours(target: str) -> bool:
    """Whether it is a part of the product."""
    return target in (SERVER, CONTROLLER, EXTENDER, SCHEDULER) or target.endswith(f"/{AGENT}")


def group_of(target: str) -> str:
    """Whose members are struck one after the other: extender and scheduler are one pod."""
    return SCHEDULER if target == EXTENDER else target


def part_of(target: str) -> str:
    """As what it is counted: the same on every node."""
    return target.rpartition("/")[2]


def planned(seed: str, seconds: float, nodes: Sequence[str]) -> list[Harm]:
    """Everything that happens in so many seconds, by its moments."""
    rounds = max(1, round(seconds / ROUND))
    length = seconds / rounds
    return [harm for number in range(rounds) for harm in _round(seed, number, length, targets_of(nodes))]


def _round(seed: str, number: int, length: float, targets: Sequence[str]) -> Iterator[Harm]:
    waves = [*_waves(f"{seed} {number}", targets)]
    step = length / len(waves)
    for place, wave in enumerate(waves):
        # The longest is over before its target can come again, in the first wave of the next round.
        at = number * length + step * (place + share(seed, str(number), str(place), "when") / 2)
        for target in wave:
            kind = _kind(seed, number, target)
            yield Harm(at, kind, target, _lasts(f"{seed} {number}", kind, target))


def _waves(seed: str, targets: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """All targets in a drawn order; two of one pod are never struck together."""
    left = sorted(targets, key=lambda target: share(seed, target, "order"))
    is_first = True
    while left:
        first = left.pop(0)
        others = [one for one in left if group_of(one) != group_of(first)]
        if others and (is_first or share(seed, first, "pair") < PAIRS):
            left.remove(others[0])
            yield first, others[0]
        else:
            yield (first,)
        is_first = False


def _kind(seed: str, number: int, target: str) -> Kind:
    if not is_ours(target):
        return "killed"
    return OURS[(int(len(OURS) * share(seed, target, "kind")) + number) % len(OURS)]


def _lasts(seed: str, kind: Kind, target: str) -> float:
    drawn = share(seed, target, "lasts")
    if kind == "paused":
        return SHORTEST_PAUSE + (LONGEST_PAUSE - SHORTEST_PAUSE) * drawn
    return 0.0 if is_ours(target) else SHORTEST_DOWN + (LONGEST_DOWN - SHORTEST_DOWN) * drawn
