"""Planning at the largest supported size: 5,000 nodes, 40,000 pods with a GPU each, none of them free.

And where all these GPUs are shared, for a pod with a share. Measured in a process of its own
(``tests.bench.planner``), whose memory is that of the whole cache.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from tests.bench.child import child
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target

NODES: Final = 5_000
BOOKED: Final = 200
_SIZE: Final = "5,000 nodes, 40,000 pods"
_FLOOR: Final = "looking at every pod once"
_ONE: Final = Kind("plan-one", f"plan for one booked pod ({_SIZE})", "ms", _FLOOR, Target(value=100))
_MANY: Final = Kind(
    "plan-many", f"plan for {BOOKED} booked pods at once ({_SIZE})", "ms", _FLOOR, Target(value=2000)
)
_FIRST: Final = Kind("plan-first", f"the first plan of a process ({_SIZE})", "ms", _FLOOR)
_IDLE: Final = Kind("plan-idle", f"seeing that there is nothing to plan ({_SIZE})", "ms", _FLOOR)
_MEMORY: Final = Kind(
    "plan-memory",
    f"memory of a process that plans ({_SIZE})",
    "MiB",
    "the same pods as structs",
    Target(value=250),
)
_SHARES: Final = "5,000 nodes, 40,000 GPUs of which two pods each have a share"
_SHARE: Final = Kind(
    "plan-share", f"plan for one booked pod with a share ({_SHARES})", "ms", _FLOOR, Target(value=50)
)
_SHARE_FIRST: Final = Kind(
    "plan-share-first",
    f"the first plan of a process for a share ({_SHARES})",
    "ms",
    _FLOOR,
    Target(value=600),
)
_CLAIMS: Final = "5,000 nodes, 40,000 GPUs of which each is in a claim"
_CLAIM: Final = Kind(
    "plan-claim", f"plan for one booked pod with a claim ({_CLAIMS})", "ms", _FLOOR, Target(value=150)
)
_CLAIM_FIRST: Final = Kind(
    "plan-claim-first", f"the first plan of a process for a claim ({_CLAIMS})", "ms", _FLOOR
)
_JUDGED: Final = Kind(
    "plan-claim-judged", f"an expression that is new, judged for every device ({_CLAIMS})", "ms", _FLOOR
)
CLAIM_KINDS: Final = (_CLAIM, _CLAIM_FIRST, _JUDGED)
_SHARERS: Final = Kind(
    "share-victims",
    "the cheapest sharers of one GPU that 16 pods share, p50",
    "us",
    target=Target(value=300),
)


class MeasuredClaims(msgspec.Struct):
    """What the process has measured where GPUs are given by claims: milliseconds."""

    floor: float
    judged: float
    first: float
    one: float


class MeasuredShares(msgspec.Struct):
    """What the process has measured where GPUs are shared: milliseconds, and microseconds."""

    floor: float
    first: float
    one: float
    sharers: float


class Measured(msgspec.Struct):
    """What the process has measured: milliseconds and bytes."""

    floor: float
    first: float
    one: float
    many: float
    idle: float
    memory: int


def measure(_lab: Lab) -> Iterator[Row]:
    """All rows."""
    with child("tests.bench.planner", str(NODES), str(BOOKED)) as line:
        measured = msgspec.json.decode(line, type=Measured)
    yield _ONE.row(measured.one, measured.floor)
    yield _MANY.row(measured.many, measured.floor)
    yield _FIRST.row(measured.first, measured.floor)
    yield _IDLE.row(measured.idle, measured.floor)
    with child("tests.bench.planner", str(NODES), "shares") as line:
        shares = msgspec.json.decode(line, type=MeasuredShares)
    yield _SHARE.row(shares.one, shares.floor)
    yield _SHARE_FIRST.row(shares.first, shares.floor)
    yield _SHARERS.row(shares.sharers)
    with child("tests.bench.planner", str(NODES), "claims") as line:
        claims = msgspec.json.decode(line, type=MeasuredClaims)
    yield _CLAIM.row(claims.one, claims.floor)
    yield _CLAIM_FIRST.row(claims.first, claims.floor)
    yield _JUDGED.row(claims.judged, claims.floor)
    with child("tests.bench.planner", str(NODES), "structs") as line:
        structs = int(line)
    yield _MEMORY.row(measured.memory / 2**20, structs / 2**20)


MEASURE: Final = Measure(
    "plan",
    (
        *(_ONE, _MANY, _FIRST, _IDLE),
        *(_SHARE, _SHARE_FIRST, _SHARERS),
        *CLAIM_KINDS,
        _MEMORY,
    ),
    measure,
)
