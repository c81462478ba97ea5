"""A real JupyterHub whose notebooks move as KubeSpawner's do, and whose proxy is a table in its memory.

The environment names the hub's port (``HUB_PORT``), the notebooks' (``NOTEBOOK_PORT``), a file with the host on
which they answer now (``NOTEBOOK_HOST_FILE``), and two services' tokens.
"""

import os
from pathlib import Path

from jupyterhub.proxy import Proxy
from jupyterhub.spawner import Spawner
from traitlets.config import get_config

TABLE = {}
HOST = Path(os.environ["NOTEBOOK_HOST_FILE"])


class TableProxy(Proxy):
    """Routes as a proxy would have them."""

    should_start = False

    async def add_route(self, routespec, target, data):
        TABLE[routespec] = {"routespec": routespec, "target": target, "data": data}

    async def delete_route(self, routespec):
        TABLE.pop(routespec, None)

    async def get_all_routes(self):
        return dict(TABLE)


class MovingSpawner(Spawner):
    """Takes over a new address at its poll, as ``KubeSpawner.poll`` does."""

    async def start(self):
        return HOST.read_text(), int(os.environ["NOTEBOOK_PORT"])

    async def poll(self):
        if self.server and self.server.ip != HOST.read_text():
            self.server.ip = HOST.read_text()
            self.db.commit()

    async def stop(self, now=False):
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
