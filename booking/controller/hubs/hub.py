"""A JupyterHub that is told when a notebook is back: its address, and who we are to it."""

from pathlib import Path
from urllib.parse import urlsplit

import msgspec


class Hub(msgspec.Struct, frozen=True, kw_only=True):
    """One hub, from the setting ``hubs``."""

    url: str
    """Of its REST API: ``http://hub.jupyter.svc:8081/hub/api``."""
    token_file: Path
    """A service's token with the scope ``proxy``; read again each time."""
    namespace: str = ""
    """Where its notebooks are; empty: everywhere."""

    def __post_init__(self) -> None:
        """Check the address.

        Raises:
            ValueError: it is no URL of an API.
        """
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(
                f"{self.url!r} is not the address of a hub's API: give one like"
                " http://hub.jupyter.svc:8081/hub/api"
            )

    def has(self, namespace: str) -> bool:
        """Whether notebooks of the namespace may be this hub's."""
        return self.namespace in {"", namespace}
