"""An API server that has a claim for each device of a node, and nothing else.

Run by ``bench_prepare`` in a process of its own; its first line is the port. The claim has the device's name.
"""

import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from cluster import names
from tests.bench.child import announce, await_end

PADDING = {"managedFields": [{"manager": "kube-scheduler", "fieldsV1": {"f:status": "x" * 1200}}]}
"""What we do not read of a claim."""


def uid(device: str) -> str:
    """Of the claim for a device."""
    return f"5c1b0a52-7a3e-4b6c-9d1e-{device}"


def claim(namespace: str, device: str, node: str) -> dict[str, Any]:
    """A claim to which the device is allocated."""
    results = [{"request": "gpu", "driver": names.DRA_DRIVER, "pool": node, "device": device}]
    requests = [{"name": "gpu", "exactly": {"deviceClassName": names.DRA_DRIVER}}]
    return {
        "metadata": {
            "name": device,
            "namespace": namespace,
            "uid": uid(device),
            "resourceVersion": "7",
            **PADDING,
        },
        "spec": {"devices": {"requests": requests}},
        "status": {"allocation": {"devices": {"results": results}}},
    }


class Handler(BaseHTTPRequestHandler):
    """Answers for single claims."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    node = ""

    def do_GET(self) -> None:
        """A claim, or nothing."""
        *_, namespace, kind, name = ("", "", *self.path.partition("?")[0].split("/"))
        is_claim = kind == "resourceclaims"
        found = claim(namespace, name, self.node) if is_claim else {"code": 404, "reason": "NotFound"}
        body = msgspec.json.encode(found)
        self.send_response(HTTPStatus.OK if is_claim else HTTPStatus.NOT_FOUND)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def main(node: str) -> None:
    """Serve until standard input ends."""
    Handler.node = node
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    announce(str(server.server_address[1]))
    await_end()
    server.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
