"""A request over a real socket, of alice's."""

from collections.abc import Mapping
from http.client import HTTPConnection


def raw_request(
    port: int, method: str, path: str, *, body: bytes = b"", length: int | None = None
) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and body of the answer; with ``length`` a longer body is announced than is sent."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest(method, path)
    connection.putheader("Authorization", "Bearer alice-token")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(body) if length is None else length))
    connection.endheaders(body)
    answer = connection.getresponse()
    parts = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return parts
