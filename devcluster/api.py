"""The few requests that a cluster's start sends to the API server, as the administrator."""

import http.client
import ssl

import msgspec

from devcluster.pki import ADMINISTRATOR
from devcluster.plan import API_PORT, Plan

_SECONDS = 5
_OK = 200


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Metadata(msgspec.Struct):
    name: str


class _Node(msgspec.Struct):
    metadata: _Metadata
    status: _Status


class _Nodes(msgspec.Struct):
    items: list[_Node]


class Api:
    """A client of a cluster's API server, with the administrator's token."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def ready(self) -> bool:
        """Whether the API server's /readyz answers 200."""
        return self._get("/readyz") is not None

    def ready_nodes(self) -> set[str]:
        """The names of the nodes that are Ready; empty if the API server does not answer with 200."""
        body = self._get("/api/v1/nodes")
        if body is None:
            return set()
        nodes = msgspec.json.decode(body, type=_Nodes).items
        return {node.metadata.name for node in nodes if _is_ready(node)}

    def has_service_account(self) -> bool:
        """Whether the namespace `default` has the ServiceAccount that its pods run as."""
        return self._get("/api/v1/namespaces/default/serviceaccounts/default") is not None

    def _get(self, path: str) -> bytes | None:
        """The body of the answer; None if there is no answer, or its status is not 200."""
        pki = self._plan.pki
        trust = ssl.create_default_context(cafile=str(pki.authority))
        host = str(self._plan.addresses.control_plane)
        connection = http.client.HTTPSConnection(host, API_PORT, timeout=_SECONDS, context=trust)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {pki.token(ADMINISTRATOR)}"})
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        return body if response.status == _OK else None


def _is_ready(node: _Node) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions
    )
