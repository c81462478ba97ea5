"""A whole node agent with simulated GPUs and without a cluster: the measure plays the kubelet."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cluster import names
from devcluster.fakenvml import FakeNvml
from devcluster.paths import CHECKOUT


@contextmanager
def lone_agent(root: Path, gpus: FakeNvml, settings: Mapping[str, str] | None = None) -> Iterator[None]:
    """A node agent in a process of its own, until the end of the ``with``.

    Args:
        root: the kubelet's folder, which is also where the agent writes its files.
        gpus: the GPUs that its driver has.
        settings: by name, those that differ.
    """
    dev, token = root / "dev", root / "token"
    dev.mkdir(exist_ok=True)
    for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{minor}" for minor in range(len(gpus.uuids())))):
        (dev / name).touch()
    token.write_text("nobody's")
    usual = {
        "node_name": "node-a",
        "host": "127.0.0.1",
        "port": str(_free_port()),
        "kubelet_root": str(root),
        "device_plugins": str(root / "device-plugins"),
        "cdi_dir": str(root / "cdi"),
        "dev_root": str(dev),
        "driver_root": str(root / "no-driver"),
        "kube_server": f"http://127.0.0.1:{_free_port()}",
        "kube_ca_file": str(token),
        "kube_token_file": str(token),
    }
    environment = {names.setting(name): value for name, value in (usual | dict(settings or {})).items()}
    with subprocess.Popen(
        [sys.executable, "-m", "deviceplugin"],
        cwd=CHECKOUT,
        env={**os.environ, **gpus.environment(), **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.kill()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
