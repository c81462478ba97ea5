"""Third parties' webhooks, called after ours: they do to a pod what the pod's own annotation says."""

import base64
import json
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from devcluster.faultproxy.certificate import make_identity

MEDDLED: Final = "example.org/meddle"
"""Label of pods that are shown to one of them; as an annotation, the JSON patch that it answers with."""
BETWEEN: Final = "gpu-booking-webhook"
"""The configuration that is asked between our first webhook and our last: MAIA's has this name."""
AFTER: Final = "zz-meddles"
"""The one that is asked after our last."""


def meddled(patch: list[dict[str, Any]], by: str = AFTER) -> dict[str, Any]:
    """Metadata of a pod to which this is done."""
    annotations = {MEDDLED: json.dumps(patch)}
    return {"generateName": "p-", "labels": {MEDDLED: by}, "annotations": annotations}


class Meddler(ThreadingHTTPServer):
    """Serves it on the host."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, folder: Path, host: str) -> None:
        super().__init__((host, 0), _Handler)
        identity = make_identity(folder, host)
        self._authority = identity.certificate.read_bytes()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(identity.certificate, identity.key)

    def finish_request(self, request: Any, client_address: Any) -> None:
        with self._context.wrap_socket(request, server_side=True) as connection:
            _Handler(connection, client_address, self)

    def handle_error(self, request: object, client_address: object) -> None:
        """An API server that closes its connection is none."""

    def configuration(self, name: str) -> dict[str, Any]:
        """The MutatingWebhookConfiguration of one of them."""
        host, port = self.server_address[:2]
        bundle = base64.b64encode(self._authority).decode()
        webhook = {
            "name": "meddles.example.org",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": f"https://{host!s}:{port}/", "caBundle": bundle},
            "objectSelector": {"matchLabels": {MEDDLED: name}},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ],
            "sideEffects": "None",
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [webhook],
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_words: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = json.loads(body)["request"]
        patch = request["object"]["metadata"]["annotations"][MEDDLED].encode()
        response = {
            "uid": request["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(patch).decode(),
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        answer = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
