"""The extender's HTTP server over a cluster of N nodes: ``/filter`` decides, ``/echo`` echoes the names.

The server is that of mode ``dedicated``. Run by ``bench_filter`` in a process of its own, and by
``bench_shares``, with ``shared``, over a cluster whose GPUs are shared; its first line is the port.
"""

import sys
from collections.abc import Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from cluster import names
from cluster.process import logs
from cluster.process.clock import SystemClock
from cluster.process.garbage import freeze_objects
from cluster.process.loopback import LoopbackServer
from extender.http_server.server import App, Verbs, create_app
from extender.metrics import Metrics
from extender.verbs.contenders import WEIGHT, Contenders
from extender.verbs.filter import Filter
from extender.verbs.prioritize import Prioritize
from extender.wire import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    LoggedAnswer,
)
from tests.bench.child import announce, await_end
from tests.bench.cluster_of_shares import a_shared_state
from tests.bench.measured_cluster import a_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed.wsgi import StartResponse, WSGIEnvironment

LONGEST_BODY = 8 * 2**20


def _echo(arguments: ExtenderArgs) -> ExtenderFilterResult:
    """Decide nothing: every node fits."""
    return ExtenderFilterResult(node_names=list(arguments.node_names or ()))


def _no_bind(arguments: ExtenderBindingArgs) -> ExtenderBindingResult:
    return ExtenderBindingResult(error=f"nothing is bound here ({arguments.pod_name})")


def _no_scores(arguments: ExtenderArgs) -> list[HostPriority]:
    del arguments
    return []


def _no_victims(arguments: ExtenderPreemptionArgs) -> ExtenderPreemptionResult:
    del arguments
    return ExtenderPreemptionResult()


def _app(verb: "Callable[[ExtenderArgs], ExtenderFilterResult | LoggedAnswer]") -> App:
    verbs = Verbs(
        filter=verb, prioritize=_no_scores, preempt=_no_victims, bind=_no_bind, refuse_bind=_no_bind
    )
    return create_app(
        verbs,
        lambda: None,
        SystemClock(),
        Metrics(CollectorRegistry()),
        limit=LONGEST_BODY,
        binds_at_once=1,
        priority=nullcontext,
    )


def main(nodes: int, *, shared: bool = False) -> None:
    """Serve until standard input ends."""
    logs.configure(level="info")
    state = a_shared_state(nodes) if shared else a_state(nodes)
    scores = Prioritize(state, SystemClock()).scores
    narrowed = Contenders(state, scores, placement=names.PLACEMENTS[0], weight=WEIGHT)
    ours, echo = _app(Filter(state, narrowed).answer_logged), _app(_echo)
    # As in the extender after its first synchronisation.
    freeze_objects()

    def switch(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/echo":
            return echo({**environ, "PATH_INFO": "/filter"}, start_response)
        return ours(environ, start_response)

    clock = SystemClock()
    server = LoopbackServer(switch, "127.0.0.1", 0, clock, connections=16, longest_body=LONGEST_BODY)
    announce(str(server.port))
    await_end()
    server.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), shared="shared" in sys.argv[2:])
