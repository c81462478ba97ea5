"""An API server with one prepared cluster of N nodes: lists, watches, and any number of events.

Run by ``bench_extender`` in a process of its own; its first line is the port. ``POST /rate`` with a number
sets how many events of pods it sends per second, ``POST /expire`` ends the watch of pods with 410, so that
they are listed again, ``POST /delay`` sets the milliseconds after which it answers for single objects.
``POST /free`` frees a GPU of the node with that number, takes the GPU that was freed before, and answers with
the milliseconds until the extender has called kube-scheduler.
"""

import itertools
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from cluster.kube.interface import INITIAL_EVENTS_END
from cluster.process.clock import SystemClock
from tests.bench.child import announce, await_end
from tests.bench.measured_cluster import GPUS, HELD, gpus_of, node_names, uuids_of
from tests.fakes.objects import A100, a_lease, a_node, a_pod

Objects = list[dict[str, Any]]
PER_BATCH: Final = 20
"""Events that are sent in one piece."""
REQUEUED_WITHIN: Final = 10.0
"""Seconds; an extender that takes longer is broken."""
GONE: Final = {"code": HTTPStatus.GONE.value, "reason": "Expired", "message": "the bench wants another list"}


@dataclass
class Cluster:
    """The prepared objects, and what was ordered by POST."""

    nodes: int
    waiting: int = 0
    """The number of pods that fit nowhere."""
    rate: int = 0
    delay: float = 0.0
    """Seconds."""
    expired: threading.Event = field(default_factory=threading.Event)
    queued: "SimpleQueue[bytes]" = field(default_factory=SimpleQueue)
    """Events of pods that are sent at once."""
    written: float = 0.0
    """When the last of these was sent."""
    requeued: threading.Event = field(default_factory=threading.Event)
    """Set when the extender has called kube-scheduler."""

    def __post_init__(self) -> None:
        names_ = node_names(self.nodes)
        now = SystemClock().now()
        self.objects: dict[str, Objects] = {
            "nodes": [
                msgspec.to_builtins(a_node(name, *gpus_of(name, number)))
                for number, name in enumerate(names_)
            ],
            "leases": [msgspec.to_builtins(a_lease(name, renewed=now)) for name in names_],
            "pods": [
                *(pod for name in names_ for pod in _pods(name)),
                *(waiting_pod(number) for number in range(self.waiting)),
            ],
            "bookings": [],
            "namespaces": [{"metadata": {"name": "default", "uid": "default", "resourceVersion": "1"}}],
        }
        self._versions = itertools.count(2)
        self._free: dict[str, Any] | None = None

    def release(self, node: int) -> float:
        """Free a GPU of a node, and take the one before: milliseconds until kube-scheduler is called."""
        if self._free is not None:
            self.queued.put(_frame("ADDED", self._free))
        pod = self.objects["pods"][node * GPUS]
        version = str(next(self._versions))
        self.requeued.clear()
        self.queued.put(
            _frame("DELETED", {**pod, "metadata": pod["metadata"] | {"resourceVersion": version}})
        )
        if not self.requeued.wait(REQUEUED_WITHIN):
            raise RuntimeError("Nobody was called for a GPU that is free.")
        found = 1000 * (SystemClock().monotonic() - self.written)
        version = str(next(self._versions))
        meta = pod["metadata"] | {"resourceVersion": version, "uid": f"{pod['metadata']['name']}-{version}"}
        self._free = {**pod, "metadata": meta}
        self.objects["pods"][node * GPUS] = self._free
        return found

    def events(self) -> Iterator[bytes]:
        """Changes one after the other: most of them are irrelevant, and now and then a GPU is freed."""
        for number in itertools.count():
            pod = self.objects["pods"][7919 * number % len(self.objects["pods"])]
            changes = ("DELETED", "ADDED") if number % 10 == 0 else ("MODIFIED",)
            for change in changes:
                meta = pod["metadata"] | {"resourceVersion": str(next(self._versions))}
                # A pod that is recreated has another uid.
                if change == "ADDED":
                    meta |= {"uid": f"{pod['metadata']['name']}-{number}"}
                pod["metadata"] = meta
                yield _frame(change, pod)


def _pods(node: str) -> Objects:
    """Eight pods of a node, with as many fields that we do not read as pods usually have."""
    padding = [{"name": f"SETTING_{number}", "value": "x" * 60} for number in range(40)]
    made = [
        a_pod(f"p-{node}-{index}").asks(1).on(node, {"main": (uuid,)}).raw
        for index, uuid in enumerate(uuids_of(node)[:HELD])
    ]
    made += [a_pod(f"p-{node}-{index}").on(node).raw for index in range(HELD, GPUS)]
    pods: Any = made
    for pod in pods:
        pod["spec"]["containers"][0]["env"] = padding
    return list(pods)


def waiting_pod(number: int) -> dict[str, Any]:
    """One of many pods that wait: half of them for two GPUs of a node, half for four."""
    pod = a_pod(f"waiting-{number:06d}").asks(2 if number % 2 == 0 else 4).wants(A100).unschedulable().raw
    return dict(pod)


def _frame(change: str, thing: object) -> bytes:
    return msgspec.json.encode({"type": change, "object": thing}) + b"\n"


class Handler(BaseHTTPRequestHandler):
    """Answers the requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    cluster: Cluster

    def do_GET(self) -> None:
        """A list or a watch."""
        address = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        kind = address.path.rpartition("/")[2]
        if kind not in self.cluster.objects:
            SystemClock().wait(threading.Event(), self.cluster.delay)
            self._answer(msgspec.json.encode({"code": 404, "reason": "NotFound"}), HTTPStatus.NOT_FOUND)
        elif query.get("watch"):
            self._watch(kind, streamed=query.get("sendInitialEvents") == "true")
        else:
            self._list(kind, int(query.get("limit", "500")), int(query.get("continue", "0")))

    def do_POST(self) -> None:
        """Do what the bench orders; an Event is accepted and ignored."""
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.path == "/rate":
            self.cluster.rate = int(body)
        elif self.path == "/delay":
            self.cluster.delay = int(body) / 1000
        elif self.path == "/expire":
            self.cluster.expired.set()
        elif self.path == "/free":
            self._answer(msgspec.json.encode(self.cluster.release(int(body))))
            return
        self._answer(b"{}")

    def do_PATCH(self) -> None:
        """A write by which the extender makes kube-scheduler requeue pods."""
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.cluster.requeued.set()
        self._answer(b'{"metadata":{}}')

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def _list(self, kind: str, limit: int, begin: int) -> None:
        every = self.cluster.objects[kind]
        meta = {"resourceVersion": "1"}
        if begin + limit < len(every):
            meta["continue"] = str(begin + limit)
        self._answer(msgspec.json.encode({"metadata": meta, "items": every[begin : begin + limit]}))

    def _watch(self, kind: str, *, streamed: bool) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            if streamed:
                self._initial(kind)
            self._changes(kind)
        except OSError:
            self.close_connection = True

    def _initial(self, kind: str) -> None:
        every = self.cluster.objects[kind]
        for begin in range(0, len(every), PER_BATCH):
            self._chunk(b"".join(_frame("ADDED", thing) for thing in every[begin : begin + PER_BATCH]))
        mark = {"resourceVersion": "1", "annotations": {INITIAL_EVENTS_END: "true"}}
        self._chunk(_frame("BOOKMARK", {"metadata": mark}))

    def _changes(self, kind: str) -> None:
        clock, events = SystemClock(), self.cluster.events()
        never, owed, last = threading.Event(), 0.0, clock.monotonic()
        while True:
            clock.wait(self.cluster.expired if kind == "pods" else never, 0.01)
            if kind != "pods":
                continue
            if self.cluster.expired.is_set():
                self.cluster.expired.clear()
                self._chunk(_frame("ERROR", GONE))
                self._chunk(b"")
                return
            while not self.cluster.queued.empty():
                self._chunk(self.cluster.queued.get())
                self.cluster.written = clock.monotonic()
            now = clock.monotonic()
            owed, last = min(owed + self.cluster.rate * (now - last), self.cluster.rate), now
            if owed >= 1:
                self._chunk(b"".join(itertools.islice(events, int(owed))))
                owed -= int(owed)

    def _answer(self, body: bytes, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _chunk(self, body: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(body), body))
        self.wfile.flush()


def main(nodes: int, waiting: int = 0) -> None:
    """Serve until standard input ends."""
    Handler.cluster = Cluster(nodes, waiting)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    announce(str(server.server_address[1]))
    await_end()
    server.shutdown()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
