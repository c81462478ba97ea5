"""The booking server's REST API, as a person with a token uses it."""

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import urllib3

from devcluster.errors import ClusterError

Json = dict[str, Any]
_SECONDS = 20.0


@dataclass(frozen=True)
class RestAnswer:
    """An answer of the booking server: status and body."""

    status: int
    body: Json

    @property
    def is_refusal(self) -> bool:
        """Whether its status is 400 or more: a problem (RFC 9457)."""
        return self.status >= HTTPStatus.BAD_REQUEST


class Rest:
    """A client of the API with one person's token."""

    def __init__(self, url: str, token: str) -> None:
        """Args: url: of the server, without a path; token: for its audience."""
        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, path: str, body: Json | None = None) -> RestAnswer:
        """Send one request below ``/api/v1``.

        Raises:
            ClusterError: there is no answer, or one that is not JSON.
        """
        url = f"{self.url}/api/v1{path}"
        try:
            answer = urllib3.request(
                method, url, json=body, headers=self._headers, timeout=_SECONDS, retries=False
            )
            return RestAnswer(answer.status, json.loads(answer.data or b"{}"))
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise ClusterError(f"{method} {url} was not answered as expected: {error}") from error

    def book(self, **request: object) -> RestAnswer:
        """Ask for a booking."""
        return self.ask("POST", "/bookings", dict(request))

    def show(self, name: str) -> RestAnswer:
        """The booking with this id, as the booking server answers."""
        return self.ask("GET", f"/bookings/{name}")

    def change(self, name: str, **fields: object) -> RestAnswer:
        """Change fields of a booking: ``start``, ``end``, ``count``, ``namespace``."""
        return self.ask("PATCH", f"/bookings/{name}", dict(fields))

    def release(self, name: str) -> RestAnswer:
        """End a running booking now."""
        return self.ask("POST", f"/bookings/{name}/release")
