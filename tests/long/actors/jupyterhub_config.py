"""A real JupyterHub whose notebooks move as KubeSpawner's do, and whose proxy is a table in its memory.

The environment names the hub's port (``HUB_PORT``), the notebooks' (``NOTEBOOK_PORT``), a file with the host
on which they answer now (``NOTEBOOK_HOST_FILE``), and two services' tokens.
"""

import os
from pathlib import Path
from typing import Any, Final

from jupyterhub.proxy import Proxy
from jupyterhub.spawner import Spawner
from traitlets.config import get_config

TABLE: Final[dict[str, dict[str, Any]]] = {}
HOST: Final = Path(os.environ["NOTEBOOK_HOST_FILE"])


class TableProxy(Proxy):
    """Routes as a proxy would have them."""

    should_start = False

    async def add_route(self, routespec: str, target: str, data: dict[str, Any]) -> None:
        """Add one, or replace it."""
        TABLE[routespec] = {"routespec": routespec, "target": target, "data": data}

    async def delete_route(self, routespec: str) -> None:
        """Remove one."""
        TABLE.pop(routespec, None)

    async def get_all_routes(self) -> dict[str, dict[str, Any]]:
        """All of them."""
        return dict(TABLE)


class MovingSpawner(Spawner):
    """Takes over a new address at its poll, as ``KubeSpawner.poll`` does."""

    async def start(self) -> tuple[str, int]:
        """The notebook runs already."""
        return HOST.read_text(), int(os.environ["NOTEBOOK_PORT"])

    async def poll(self) -> None:
        """It lives; its address may have changed."""
        if self.server and self.server.ip != HOST.read_text():
            self.server.ip = HOST.read_text()
            self.db.commit()

    async def stop(self, now: bool = False) -> None:  # noqa: FBT001, FBT002 - JupyterHub's signature
        """Nothing runs."""


c = get_config()
c.JupyterHub.proxy_class = TableProxy
c.JupyterHub.spawner_class = MovingSpawner
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.bind_url = "http://127.0.0.1:0"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{os.environ['HUB_PORT']}"
c.JupyterHub.db_url = "sqlite:///hub.sqlite"
c.JupyterHub.cookie_secret = bytes(32)
c.Spawner.poll_interval = 1
c.JupyterHub.services = [
    {"name": "gpu-booking", "api_token": os.environ["OUR_TOKEN"]},
    {"name": "starter", "api_token": os.environ["STARTERS_TOKEN"]},
]
c.JupyterHub.load_roles = [
    {"name": "gpu-booking", "scopes": ["proxy"], "services": ["gpu-booking"]},
    {"name": "starter", "scopes": ["admin:users", "admin:servers"], "services": ["starter"]},
]
