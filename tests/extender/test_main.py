"""The composition root: everything is wired, and what is missing is said in a sentence."""

import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest

from cluster.kube.connection import BadConnectionError
from cluster.runtime.process import Process
from cluster.runtime.settings import SettingsError, load
from extender.__main__ import build
from extender.settings import Settings
from tests.fakes.clock import FakeClock


def settings(folder: Path, **variables: str) -> Settings:
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


def test_the_whole_process_is_built_and_closed(tmp_path: Path) -> None:
    process = build(settings(tmp_path), FakeClock())

    assert isinstance(process, Process)
    process.end("the test is over")
    assert process.run() == 0


def test_until_it_is_in_step_with_the_cluster_it_is_not_ready(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = build(settings(tmp_path, PROBE_PORT=str(port)), FakeClock())
    client = HTTPConnection("127.0.0.1", port, timeout=10)

    client.request("GET", "/readyz")
    answer = client.getresponse()

    assert answer.status == 503
    assert answer.read() == b"cluster: The pods of the cluster have not been read yet.\n"
    client.close()
    process.end("the test is over")
    process.run()


def test_a_missing_token_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadConnectionError):
        build(settings(tmp_path, KUBE_TOKEN_FILE=str(tmp_path / "nothing")), FakeClock())


def test_a_wrong_setting_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="GPU_BOOKING_THREADS"):
        settings(tmp_path, THREADS="many")


def test_outside_a_pod_and_without_settings_it_ends_with_a_sentence() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "extender"],
        env={"PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 2
    assert "KUBERNETES_SERVICE_HOST" in ended.stderr
    assert "Traceback" not in ended.stderr
