"""How soon GPUs are taken back for fair shares once somebody has had too few for long enough."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cluster import names
from cluster.kube.interface import Kube
from devcluster.demo.access import person
from devcluster.product import Parts
from tests.bench.bench_booked import body
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.pods import NAMESPACE, Ground
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile

ROUNDS: Final = 7
OTHERS: Final = 3
MINUTE: Final = 2.0
"""Seconds in place of the policy's minute."""
POLICY: Final = (
    f"fair_shares: {{mode: reclaim, worth: 0, min_runtime: PT0S, reclaim_after: PT{MINUTE:.0f}S}}\n"
)
_STARVED: Final = Kind(
    "starved-sigterm-p50",
    f"starved for as long as the policy allows to its victim being ended, p50 of {ROUNDS}",
    "ms",
    target=Target(value=500),
)


def measure(lab: Lab) -> Iterator[Row]:
    """Four GPUs are one user's; in each round alice wants one."""
    standing, found = lab.standing, list[float]()
    parts, ground = standing.parts, standing.ground
    with ExitStack() as stack:
        policy = Path(stack.enter_context(TemporaryDirectory())) / "policy.yaml"
        policy.write_text(POLICY)
        parts.controller().kill()
        parts.start_controller({names.setting("policy_file"): str(policy)})
        stack.callback(_as_usual, parts)
        parts.await_ready()
        parts.people.admit("alice", NAMESPACE)
        alice = stack.enter_context(closing(person(standing.cluster, parts.people.token("alice"))))
        others = [body(f"much-{number}") for number in range(OTHERS)]
        ground.bear(*others)
        found = [_round(ground, alice, number) for number in range(ROUNDS)]
        ground.remove_all(other["metadata"]["name"] for other in others)
    yield _STARVED.row(1000 * percentile(found, 50))


def _as_usual(parts: Parts) -> None:
    parts.controller().kill()
    parts.start_controller()
    parts.await_ready()


def _round(ground: Ground, alice: Kube, number: int) -> float:
    """Seconds past the policy's minute."""
    victim, hers = f"loses-{number}", f"starved-{number}"
    ground.bear(body(victim, safe=True))
    ground.bear(body(hers), by=alice)
    past = ground.left(victim) - ground.born(hers) - MINUTE
    ground.remove(hers)
    ground.await_return(victim)
    ground.remove(victim)
    return past


MEASURE: Final = Measure("starved", (_STARVED,), measure, on_cluster=True)
