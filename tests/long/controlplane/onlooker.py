"""A stock kube-scheduler that is asked where pods fit, and never binds one.

It has an extender that is asked about the nodes which all of the scheduler's own plugins let through, and
rejects every one of them.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from cluster.process.probes import serve
from devcluster.cluster import Cluster
from extender.wire import ExtenderArgs, ExtenderFilterResult

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

NAME = "onlooker"
_PORT = 10559


class Onlooker:
    """What the scheduler has found, as the extender that it asks last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, frozenset[str]] = {}

    def found(self, uid: str) -> frozenset[str]:
        """Nodes that were left for the pod when it was tried; none where it was not even asked for."""
        with self._lock:
            return self._found.get(uid, frozenset())

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        """Answer ``filter``: none of them."""
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        args = msgspec.json.decode(body, type=ExtenderArgs)
        nodes = args.node_names or ()
        with self._lock:
            self._found[args.pod.metadata.uid] = frozenset(nodes)
        answer = ExtenderFilterResult(failed_and_unresolvable_nodes=dict.fromkeys(nodes, "never binds"))
        start_response("200 OK", [("Content-Type", "application/json")])
        return [msgspec.json.encode(answer)]


@contextmanager
def observing(cluster: Cluster) -> Iterator[Onlooker]:
    """The scheduler, running in a cluster for the pods that name it."""
    onlooker = Onlooker()
    server = serve(onlooker, "0.0.0.0", 0)
    try:
        folder = cluster.state / "mine" / NAME
        folder.mkdir(parents=True)
        path = folder / "scheduler.json"
        path.write_text(json.dumps(_configuration(cluster, server.port)))
        command = [str(cluster.program("kubebox")), "kube-scheduler", f"--config={path}"]
        more = [f"--secure-port={_PORT}", "--bind-address=127.0.0.1", f"--cert-dir={folder}"]
        cluster.spawn(NAME, [*command, *more])
        yield onlooker
    finally:
        server.close()


def _configuration(cluster: Cluster, port: int) -> dict[str, object]:
    extender = {
        "urlPrefix": f"http://{cluster.host_address}:{port}",
        "filterVerb": "filter",
        "httpTimeout": "30s",
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig), "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": NAME}],
        "extenders": [{**extender, "nodeCacheCapable": True}],
    }
