"""A proxy between our parts and the API server that injects faults.

The settings of a part point it at the proxy; everything passes, watches and their events, too, until a rule
says otherwise. `calls` reads requests, `rules` decides what happens to each call and records them all, both
without sockets; `proxy` has the sockets. Used by the crash tests, which end a part at exactly one call.
"""

from devcluster.faultproxy.calls import Call
from devcluster.faultproxy.proxy import FaultProxy
from devcluster.faultproxy.rules import (
    Cut,
    FaultAnswer,
    Lose,
    Match,
    Pass,
    Record,
    Refuse,
    Rule,
    Rules,
    Slow,
    Stall,
)

__all__ = [
    "Call",
    "Cut",
    "FaultAnswer",
    "FaultProxy",
    "Lose",
    "Match",
    "Pass",
    "Record",
    "Refuse",
    "Rule",
    "Rules",
    "Slow",
    "Stall",
]
