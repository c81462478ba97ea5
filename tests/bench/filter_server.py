"""The extender's HTTP server over a cluster of N nodes: ``/filter`` decides, ``/floor`` reads and writes.

Run by ``bench_filter`` in a process of its own; its first line is the port.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from flask import Flask
from prometheus_client import CollectorRegistry

from cluster.runtime import logs
from cluster.runtime.clock import SystemClock
from cluster.runtime.probes import serve
from extender.filter import Filter
from extender.metrics import Metrics
from extender.server import Verbs, create_app
from extender.wire import Arguments, BindingArguments, BindingResult, FilterResult, HostPriority
from tests.bench.child import tell, until_told
from tests.bench.scene import a_state, question

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

LONGEST_BODY = 16 * 2**20


class Constant:
    """Decides nothing: the answer of the real verb, which is encoded anew for each call."""

    def __init__(self, answer: FilterResult) -> None:
        self._answer = answer

    def __call__(self, arguments: Arguments) -> FilterResult:
        """The same answer as always."""
        del arguments
        return self._answer


def _no_bind(arguments: BindingArguments) -> BindingResult:
    return BindingResult(error=f"nothing is bound here ({arguments.pod_name})")


def _no_scores(arguments: Arguments) -> list[HostPriority]:
    del arguments
    return []


def _app(verb: "Filter | Constant") -> Flask:
    verbs = Verbs(filter=verb, prioritize=_no_scores, bind=_no_bind)
    return create_app(verbs, lambda: None, SystemClock(), Metrics(CollectorRegistry()), limit=LONGEST_BODY)


def main(nodes: int) -> None:
    """Serve until standard input ends."""
    logs.configure(level="info")
    decides = Filter(a_state(nodes))
    answer = decides(msgspec.json.decode(question(nodes), type=Arguments))
    ours, floor = _app(decides), _app(Constant(answer))

    def switch(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/floor":
            return floor({**environ, "PATH_INFO": "/filter"}, start_response)
        return ours(environ, start_response)

    server = serve(switch, "127.0.0.1", 0, threads=16, longest_body=LONGEST_BODY)
    tell(str(server.port))
    until_told()
    server.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
