"""Settings of an extender without an API server, and free ports for it."""

import socket
from pathlib import Path

from cluster.process.settings import load
from extender.settings import Settings


def settings(folder: Path, **variables: str) -> Settings:
    """The usual settings, with free ports and an API server that does not answer."""
    token = folder / "token"
    token.write_text("t")
    given = {
        "PORT": "0",
        "PROBE_HOST": "127.0.0.1",
        "PROBE_PORT": "0",
        "KUBE_SERVER": "http://127.0.0.1:9",
        "KUBE_CA_FILE": str(token),
        "KUBE_TOKEN_FILE": str(token),
        **variables,
    }
    return load(Settings, {f"GPU_BOOKING_{name}": value for name, value in given.items()})


def free_port() -> int:
    """A port on which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
