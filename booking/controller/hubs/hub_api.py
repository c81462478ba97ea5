"""HTTP to a JupyterHub: its REST API's ``/proxy``, to mend the proxy's routes and read where they lead."""

from http import HTTPStatus
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from booking.controller.hubs.hub import Hub

TIMEOUT: Final = urllib3.Timeout(connect=2.0, read=5.0)
PAGE: Final = 200
"""Routes that are read at a time: the most that a hub gives."""
MOST_PAGES: Final = 100
LONGEST_REASON: Final = 200


class HubError(Exception):
    """The hub did not do what it was asked; the text is a sentence."""


class HubApi(Protocol):
    """What is asked of a hub."""

    def check_routes(self) -> None:
        """Make the hub compare its proxy's routes with the addresses that it knows, and mend them.

        Raises:
            HubError: it did not.
        """
        ...

    def hosts(self) -> frozenset[str]:
        """The hosts (addresses or names) to which the proxy leads.

        Raises:
            HubError: the hub does not say.
        """
        ...


class Route(msgspec.Struct, frozen=True):
    """One route of the proxy."""

    target: str = ""


class HttpHubApi:
    """A hub, asked by HTTP. Each request ends within seconds, and is sent once."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._pool = urllib3.PoolManager(num_pools=1, timeout=TIMEOUT, retries=False)

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()

    def check_routes(self) -> None:
        """Make the hub mend its proxy's routes; see ``HubApi``."""
        self._ask("POST", "")

    def hosts(self) -> frozenset[str]:
        """Where the routes lead; see ``HubApi``."""
        found: set[str] = set()
        for page in range(MOST_PAGES):
            body = self._ask("GET", f"?limit={PAGE}&offset={page * PAGE}")
            try:
                routes = msgspec.json.decode(body, type=dict[str, Route])
            except msgspec.MsgspecError as error:
                raise HubError(f"{self._hub.url}/proxy is not understood: {error}.") from error
            found |= {urlsplit(route.target).hostname or "" for route in routes.values()}
            if len(routes) < PAGE:
                break
        return frozenset(found)

    def _ask(self, method: str, query: str) -> bytes:
        url = f"{self._hub.url.rstrip('/')}/proxy"
        try:
            token = self._hub.token_file.read_text().strip()
            answer = self._pool.request(
                method, url + query, headers={"Authorization": f"token {token}"}, redirect=False
            )
        except OSError as error:
            raise HubError(f"The token for {url} cannot be read: {error}.") from error
        except (HTTPError, ValueError) as error:
            raise HubError(f"{url} does not answer: {error}"[:LONGEST_REASON]) from error
        if answer.status == HTTPStatus.FORBIDDEN:
            raise HubError(f"{url} refuses our token: it needs a service's token with the scope proxy.")
        if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            raise HubError(f"{url} answered {method} with {answer.status}.")
        return answer.data
