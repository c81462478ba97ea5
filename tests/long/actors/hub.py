"""A JupyterHub with one user, as far as Kubernetes sees it: KubeSpawner's own pod, and its own ``poll``.

``python hub.py NAMESPACE USER IMAGE GPUS [PROFILES PROFILE]``; ``KUBECONFIG`` names the hub's; PROFILES is a
``profile_list`` in JSON, of which the user chooses one. The first line that it prints is the pod that the
spawner makes, as JSON. For every line that it then reads it polls once, as the hub does every 30 seconds, and
prints what the hub believes: the exit code (null: the server lives) and the server's address.
"""

import asyncio
import json
import sys
from types import SimpleNamespace
from typing import Any

from kubernetes_asyncio.client import ApiClient
from kubespawner import KubeSpawner

from cluster import names

HUB = "http://hub.jupyterhub:8081"
PORT = 8888


class Server(SimpleNamespace):
    """Where the hub believes the server to be: what its proxy leads to."""

    @property
    def url(self) -> str:
        """With the path below which the server answers."""
        return f"http://{self.ip}:{self.port}/user/"


def spawner_of(namespace: str, user: str, image: str, gpus: str, *choice: str) -> KubeSpawner:
    """The hub's spawner for a user; what the hub keeps in its database is kept in plain objects."""
    who = SimpleNamespace(name=user, url=f"/user/{user}/", id=1, server=None)
    hub = SimpleNamespace(public_host="", url=HUB, base_url="/hub/", api_url=f"{HUB}/hub/api")
    orm = SimpleNamespace(name="", server=None, oauth_client_id="jupyterhub-user", oauth_scopes=[])
    spawner = KubeSpawner(hub=hub, user=who, orm_spawner=orm, _mock=True)
    spawner.namespace = namespace
    spawner.image, spawner.image_pull_policy, spawner.api_token = image, "Never", "a-token-of-the-hub"
    spawner.extra_resource_limits = {names.GPU_RESOURCE: gpus} if int(gpus) else {}
    if choice:
        profiles, profile = choice
        spawner.profile_list, spawner.user_options = json.loads(profiles), {"profile": profile}
    return spawner


async def manifest(spawner: KubeSpawner) -> Any:
    """The pod that it would create."""
    await spawner.load_user_options()
    made = await spawner.get_pod_manifest()
    async with ApiClient() as client:
        return client.sanitize_for_serialization(made)


async def serve(spawner: KubeSpawner) -> None:
    """Print the pod, then poll whenever a line comes."""
    print(json.dumps(await manifest(spawner)), flush=True)
    stored = SimpleNamespace()
    server = Server(ip="not-started-yet", port=PORT, orm_server=stored)
    spawner.orm_spawner.server, spawner._server = stored, server
    spawner.db = SimpleNamespace(commit=lambda: None)
    while await asyncio.to_thread(sys.stdin.readline):
        code = await spawner.poll()
        print(json.dumps({"code": code, "address": server.ip}), flush=True)


async def main() -> None:
    """Until the input ends."""
    await serve(spawner_of(*sys.argv[1:]))


if __name__ == "__main__":
    asyncio.run(main())
